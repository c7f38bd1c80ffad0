"""One file made into chunks."""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_server_qdrant.core.disk import OUTSIDE
from mcp_server_qdrant.core.notation import point_id
from mcp_server_qdrant.encoders.chunk import token_count
from mcp_server_qdrant.ingest.encoding import encoded_text
from mcp_server_qdrant.ingest.files import reader as reader_module
from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
from mcp_server_qdrant.ingest.files.sync import FileJob, Sync
from mcp_server_qdrant.ingest.files.walk import Found, Problem


def found(path: Path, text: str | bytes, mtime: int = 10**18) -> Found:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, ns=(mtime, mtime))
    return Found("n", f"n/{path.name}", path, 0, 0)


def prepare(file: Found, *, limit: int = 64, max_bytes: int = 10_000, **given: Any) -> Any:
    """What a run makes of a file: its parts, or a problem."""
    store = SimpleNamespace(points=SimpleNamespace(identify=point_id), mask=True)
    run = Sync(store, SyncRequest((), "c", max_bytes=max_bytes))
    run.model, run.limit = "m", limit
    for name, value in given.items():
        setattr(run, name, value)
    return asyncio.run(run.job(file)) or run.report.problems[0]


def test_a_file_becomes_chunks_that_fit_with_their_heading(tmp_path):
    text = "# Harbours of the north\n\n" + "\n\n".join(
        f"## The long name of part {n}\n\n" + "Some words on this part. " * 9 for n in range(4)
    )
    job = prepare(found(tmp_path / "a.md", text))

    assert isinstance(job, FileJob)
    assert len(job.parts) > 4
    sizes = [token_count(encoded_text(part), None) for part in job.parts]
    assert max(sizes) <= 64 - 2
    assert [part.text for part in job.parts] == [text[part.start : part.end] for part in job.parts]
    headings = {part.heading for part in job.parts}
    assert "Harbours of the north > The long name of part 3" in headings


SYNCED, OWN = "2001-09-09T01:46:40Z", "2020-05-06T00:00:00Z"


@pytest.mark.parametrize(
    ("name", "text", "dates"),
    [
        ("a.md", "text", [(None, SYNCED, False)]),
        ("a.md", "---\ndate: 2020-05-06\n---\ntext", [(OWN, SYNCED, True)]),
        # A message or row is last written on its own date, whatever the time of its export.
        (
            "a.jsonl",
            '{"text": "roses", "date": "2020-05-06"}\n{"text": "tulips"}',
            [(OWN, OWN, True), (None, SYNCED, False)],
        ),
    ],
)
def test_a_text_has_the_date_that_it_gives_the_time_of_its_file_is_another(
    name, text, dates, tmp_path
):
    job = prepare(found(tmp_path / name, text))

    assert [(one.created_at, one.updated_at, one.dated) for one in job.parts] == dates
    assert job.found.stamp == (len(text), 10**18), "as it is when it is read"
    absurd = prepare(found(tmp_path / "c.md", "text", 2**62))
    assert absurd.parts[0].updated_at.startswith("2116-")


@pytest.mark.parametrize(("name", "most"), [("a.md", 10_000), ("a.jsonl", 200_000)])
def test_a_file_too_large_is_not_read_and_lists_may_be_larger_than_texts(name, most, tmp_path):
    row = b'{"text": "x"}'
    reason = f"has {most + 1:,} bytes, more than the {most:,} that are read"
    file = found(tmp_path / name, row.ljust(most + 1))

    assert prepare(file) == Problem(f"n/{name}", reason, stamp=file.stamp)
    assert isinstance(prepare(found(tmp_path / name, row.ljust(most))), FileJob)


class Panic(BaseException):
    """As libraries in Rust raise."""


@pytest.mark.parametrize("fault", [MemoryError, RecursionError, OverflowError, KeyError, Panic])
def test_whatever_a_file_raises_is_its_problem_and_what_was_stored_stays(
    fault, tmp_path, monkeypatch
):
    def stumble(path: str, *_: Any, **__: Any) -> Any:
        raise fault(f"{path} makes it stumble")

    monkeypatch.setattr(reader_module, "load", stumble)
    file = found(tmp_path / "a.md", "text")

    reason = f"cannot be read: an unexpected {fault.__name__}"
    assert prepare(file) == Problem("n/a.md", reason, kept=True, stamp=file.stamp)


def test_a_file_that_became_a_link_out_of_the_folder_is_not_read(tmp_path):
    (tmp_path / "secret").write_text("the key")
    (folder := tmp_path / "n").mkdir()
    seen = replace(found(folder / "a.md", "text"), within=folder)
    (folder / "a.md").unlink()
    (folder / "a.md").symlink_to("../secret")

    assert prepare(seen) == Problem("n/a.md", OUTSIDE, stamp=seen.stamp)
    assert isinstance(prepare(replace(seen, within=None)), FileJob)


def test_texts_with_ids_of_another_file_get_ids_of_their_own(tmp_path):
    rows = "\n".join(f'{{"id": "{n}", "text": "t{n}"}}' for n in range(8))
    owners, report = {str(n): "n/first.jsonl" for n in range(5)}, Report()

    job = prepare(found(tmp_path / "a.jsonl", rows), owners=owners, report=report)

    own = [f"n/a.jsonl#{n}" for n in range(5)]
    assert [part.document for part in job.parts] == [*own, "5", "6", "7"]
    assert job.parts[0].file["documents"] == 8
    assert [note for _, note in report.notes] == [
        "'0' is stored as 'n/a.jsonl#0': n/first.jsonl has that id",
        "'1' is stored as 'n/a.jsonl#1': n/first.jsonl has that id",
        "'2' is stored as 'n/a.jsonl#2': n/first.jsonl has that id",
        "and 2 more ids",
    ]


def test_an_export_that_another_file_has_too_is_left_out_and_named(tmp_path):
    row = '{"id": "0", "text": "t", "mcp_server_qdrant": {"id": "0"}}\n{"id": "1", "text": "u"}'
    report = Report()

    job = prepare(found(tmp_path / "a.jsonl", row), owners={"0": "n/first.jsonl"}, report=report)

    assert [part.document for part in job.parts] == ["1"]
    assert [note for _, note in report.notes] == ["'0' is left out: n/first.jsonl has that id"]


def test_a_source_that_the_text_names_is_not_replaced_by_the_file(tmp_path):
    rows = '{"id": "a", "text": "x", "url": "http://x"}\n{"id": "b", "text": "y"}'
    job = prepare(found(tmp_path / "a.jsonl", rows))

    assert [part.source for part in job.parts] == [None, "n/a.jsonl"]


def test_a_file_whose_front_matter_is_too_much_is_a_problem_that_says_the_limit(tmp_path):
    tags = f"---\ntags: [{', '.join(f't{number}' for number in range(101))}]\n---\ntext"
    tagged = prepare(found(tmp_path / "a.md", tags))
    long = found(tmp_path / "b.md", f"---\nx: {'y' * 65_536}\n---\ntext")

    assert tagged.reason.startswith("has 101 tags: at most 100 are stored")
    heavy = "has metadata of 65,544 bytes as JSON: at most 65,536"
    assert prepare(long, max_bytes=100_000).reason.startswith(heavy)


def test_a_line_that_carries_too_much_is_left_out_and_the_others_are_stored(tmp_path):
    lines = [{"id": "a", "text": "x", "tags": ["y" * 129]}, {"id": "b", "text": "x"}]
    report, rows = Report(), "\n".join(map(json.dumps, lines))
    job = prepare(found(tmp_path / "a.jsonl", rows), report=report)

    assert [part.document for part in job.parts] == ["b"]
    assert report.notes == [
        ("n/a.jsonl", "'a' is left out: it has a tag of more than 128 characters: shorten it")
    ]


def test_headings_as_long_as_texts_are_cut(tmp_path):
    long = f"# {'a' * 4_000}\n\n## {'b' * 4_000}\n\ntext\n"
    job = prepare(found(tmp_path / "a.md", long))

    assert len(job.parts[-1].title) == 1_000
    assert len(job.parts[-1].section) == 1_000


def test_a_file_that_cannot_be_read_without_a_program_is_not_gone(tmp_path, monkeypatch):
    """As while this server is upgraded."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    problem = prepare(found(tmp_path / "a.pdf", "%PDF"))

    assert (problem.kept, problem.stamp) == (True, ())
