"""Files and a collection kept in sync, on both engines."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from mcp_server_qdrant.core.datatypes import NewDocument, Selection
from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.core.notation import point_id
from mcp_server_qdrant.core.writes import Changes
from mcp_server_qdrant.ingest.files.reader import Reader
from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
from mcp_server_qdrant.ingest.files.sync import Sync
from mcp_server_qdrant.ingest.files.walk import sources
from tests.ingest import bad_files
from tests.support import find, memory_services, texts

LATER = "2099-01-01T00:00:00Z"
WORDS = "Harbour number {} has a crane and a lighthouse, seen from the north. "


@pytest.fixture
def notes(tmp_path) -> Path:
    """Six notes, one of them long, and a list."""
    folder = tmp_path / "notes"
    (folder / "sub").mkdir(parents=True)
    for number in range(5):
        (folder / f"n{number}.md").write_text(f"# Note {number}\n\nAbout thing{number}.\n")
    long = "\n\n".join(f"## Part {n}\n\n" + WORDS.format(n) * 4 for n in range(6))
    (folder / "sub/long.md").write_text(f"---\ntags: [sea]\n---\n# Harbours\n\n{long}\n")
    (folder / "list.jsonl").write_text(
        '{"id": "one", "text": "first lamp"}\n{"id": "two", "text": "second lamp"}\n'
    )
    return folder


async def sync(services, folder: Path, *, before: Report | None = None, **options: Any) -> Report:
    request = SyncRequest(
        tuple(sources([folder])), "things", **{"mirror": True, "max_bytes": 1_000_000} | options
    )
    return await services.sync(request, before=before)


async def stored(engine) -> dict[str, tuple[Any, Any]]:
    """Id -> payload and vectors, of everything in the collection."""
    records, _ = await engine.scroll("things", limit=10_000, with_payload=True, with_vectors=True)
    return {record.id: (record.payload, vectors(record.vector)) for record in records}


def vectors(given: Any) -> Any:
    """Named vectors so that equal ones are equal.

    The terms of a sparse one come in any order; local mode normalises, which costs a digit.
    """
    return {
        name: [round(value, 5) for value in one]
        if isinstance(one, list)
        else dict(zip(one.indices, one.values, strict=True))
        for name, one in given.items()
    }


def counts(report: Report) -> tuple[int, int, int, int, int]:
    return (
        len(report.new),
        len(report.changed),
        len(report.removed),
        report.unchanged,
        len(report.problems),
    )


def rewrite(file: Path, text: str) -> None:
    """Change a file; its time is another even where the clock is coarse."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text)
    os.utime(file, ns=(before + 10**9, before + 10**9))


async def test_files_are_stored_with_title_section_tags_and_state(engine, services, notes):
    report = await sync(services, notes)
    found = [payload for payload, _ in (await stored(engine)).values()]

    by_id = {(one["doc"]["id"], one["doc"]["chunk"]): one for one in found}
    note = by_id["notes/n3.md", 0]
    part = by_id["notes/sub/long.md", 3]
    assert counts(report) == (7, 0, 0, 0, 0)
    assert (note["title"], note["source"]) == ("Note 3", "notes/n3.md")
    assert note["doc"]["file"] == {
        "source": "notes",
        "path": "notes/n3.md",
        "hash": note["doc"]["file"]["hash"],
        "mtime": (notes / "n3.md").stat().st_mtime_ns,
        "size": (notes / "n3.md").stat().st_size,
        "documents": 1,
        "model": "fake/Bag-of-Words",
    }
    assert (note["doc"]["date"], "created_at" in note) == ("none", False)
    assert (part["title"], part["tags"]) == ("Harbours", ["sea"])
    assert part["doc"]["section"].startswith("Part ")
    whole = (notes / "sub/long.md").read_text()
    assert whole[part["doc"]["start"] : part["doc"]["end"]] == part["document"]
    assert by_id["two", 0]["document"] == "second lamp"


async def test_what_is_unchanged_is_neither_read_nor_encoded(engine, encoder, services, notes):
    await sync(services, notes)
    before, encoder.documents = await stored(engine), []
    for file in notes.rglob("*.*"):
        file.chmod(0o600)
    engine.calls.clear()
    report = await sync(services, notes)
    after = await stored(engine)

    assert counts(report) == (0, 0, 0, 7, 0)
    assert (encoder.documents, report.texts) == ([], 0)
    assert after == before
    assert not {"upsert", "delete", "set_payload"} & {name for name, _ in engine.calls}


async def test_what_changed_is_stored_and_what_is_gone_removed_exactly(
    engine, encoder, services, notes
):
    await sync(services, notes)
    encoder.documents = []
    rewrite(notes / "n1.md", "# Note 1\n\nNow of a violin.\n")
    rewrite(notes / "sub/long.md", "# Harbours\n\nOnly this is left.\n")
    (notes / "n2.md").unlink()
    rewrite(notes / "n9.md", "new")
    report = await sync(services, notes)
    found = await stored(engine)
    again = await sync(services, notes)

    assert (report.new, report.removed) == (["notes/n9.md"], ["notes/n2.md"])
    assert sorted(report.changed) == ["notes/n1.md", "notes/sub/long.md"]
    assert (report.unchanged, len(encoder.documents)) == (4, 3)
    assert sorted(payload["document"] for payload, _ in found.values()) == [
        "# Harbours\n\nOnly this is left.\n",
        "# Note 0\n\nAbout thing0.\n",
        "# Note 1\n\nNow of a violin.\n",
        "# Note 3\n\nAbout thing3.\n",
        "# Note 4\n\nAbout thing4.\n",
        "first lamp",
        "new",
        "second lamp",
    ]
    assert counts(again) == (0, 0, 0, 7, 0)


async def test_only_changed_parts_are_encoded_and_a_new_time_alone_embeds_nothing(
    encoder, services, notes, monkeypatch
):
    await sync(services, notes)
    whole, encoder.documents = list(encoder.documents), []
    file = notes / "sub/long.md"
    rewrite(file, f"{file.read_text()}\n## Violins\n\nThey hang on the wall.\n")
    report = await sync(services, notes)

    assert report.changed == ["notes/sub/long.md"]
    assert not {*encoder.documents} & {*whole}
    assert len(encoder.documents) < report.texts

    encoder.documents = []
    rewrite(file, file.read_text())
    report = await sync(services, notes)
    known = report.stored["notes/sub/long.md"]

    assert (report.unchanged, encoder.documents) == (7, [])
    assert known.stamp == (file.stat().st_size, file.stat().st_mtime_ns), "it is not read again"

    def read(self: Sync, found: Any) -> Any:
        raise AssertionError(f"{found.path} is read again after a restart")

    monkeypatch.setattr(Sync, "_read", read)
    assert counts(await sync(services, notes)) == (0, 0, 0, 7, 0)
    versions = await services.history.versions("notes/sub/long.md")
    assert versions == [], "what nobody edited is not kept"


async def test_lines_of_a_list_come_and_go_and_stay_when_it_is_renamed(engine, services, notes):
    await sync(services, notes)
    rewrite(notes / "list.jsonl", '{"id": "two", "text": "second"}\n{"id": "x", "text": "y"}\n')
    await sync(services, notes)
    before = await stored(engine)
    (notes / "list.jsonl").rename(notes / "renamed.jsonl")
    report = await sync(services, notes)
    again = await sync(services, notes)
    after = await stored(engine)

    one, two, x = (point_id("things", name, 0) for name in ("one", "two", "x"))
    assert (one in before, before[two][0]["document"], x in before) == (False, "second", True)
    assert (report.new, report.removed) == (["notes/renamed.jsonl"], ["notes/list.jsonl"])
    assert counts(again) == (0, 0, 0, 7, 0)
    assert after[two][0]["doc"]["file"]["path"] == "notes/renamed.jsonl"


async def test_a_file_that_moves_keeps_its_vectors_and_what_callers_have_changed(
    engine, encoder, services, notes
):
    await sync(services, notes)
    old, outdated = (point_id("things", f"notes/{name}.md", 0) for name in ("n1", "n2"))
    one, other = await services.store.points.by_id("things", [old, outdated])
    await services.revision.revise(one, Changes(tags=("mine",), title="Mine", expires=LATER))
    heir = await services.store.store(NewDocument("newer than both", id="heir"), "things")
    await services.store.points.retire(one, heir.document, "things")
    await services.store.points.retire(other, "notes/n1.md", "things")
    encoder.documents = []
    (notes / "n1.md").rename(notes / "sub/m1.md")
    (notes / "sub/long.md").rename(notes / "long.md")
    plan = await sync(services, notes, dry_run=True)
    report = await sync(services, notes)
    again = await sync(services, notes)
    found = await stored(engine)

    names = {"notes/sub/m1.md": "notes/n1.md", "notes/long.md": "notes/sub/long.md"}
    assert (plan.moved, report.moved, again.moved) == (names, names, {})
    assert (encoder.documents, report.notes) == ([], [])
    assert counts(again) == (0, 0, 0, 7, 0)
    moved = found[point_id("things", "notes/sub/m1.md", 0)][0]
    assert (moved["title"], moved["tags"], moved["superseded_by"]) == ("Mine", ["mine"], "heir")
    assert moved["doc"]["expires"] == LATER
    assert found[outdated][0]["superseded_by"] == "notes/sub/m1.md"
    assert old not in found


@pytest.mark.parametrize("last", ["retire", "settle", "delete_file_points"])
async def test_a_move_that_was_interrupted_is_followed_by_the_next_run(
    engine, services, notes, monkeypatch, last
):
    (notes / "old.md").write_text("\n\n".join(f"Paragraph {n} on harbours." for n in range(400)))
    await sync(services, notes)
    one, other = (point_id("things", f"notes/{name}.md", 0) for name in ("old", "n2"))
    (mine, outdated) = await services.store.points.by_id("things", [one, other])
    await services.revision.revise(mine, Changes(tags=("mine",)))
    await services.store.points.retire(outdated, "notes/old.md", "things")
    (notes / "old.md").rename(notes / "new.md")

    class Killed(BaseException):
        pass

    async def killed(*_: object) -> None:
        # A task that is cancelled would only end itself.
        raise asyncio.CancelledError if last == "retire" else Killed

    with monkeypatch.context() as patch:
        patch.setattr(type(services.store.points), last, killed)
        with pytest.raises((asyncio.CancelledError, Killed, BaseExceptionGroup)):
            await sync(services, notes)
    report = await sync(services, notes)
    found = await stored(engine)

    moved = found[point_id("things", "notes/new.md", 0)][0]
    assert (moved["tags"], report.problems) == (["mine"], [])
    assert found[other][0]["superseded_by"] == "notes/new.md"
    assert one not in found


async def test_a_file_of_the_size_and_time_of_one_that_is_gone_is_another_if_its_contents_are(
    engine, services, notes
):
    await sync(services, notes)
    (one,) = await services.store.points.by_id("things", [point_id("things", "notes/n1.md", 0)])
    await services.revision.revise(one, Changes(tags=("mine",)))
    time = (notes / "n1.md").stat().st_mtime_ns
    (notes / "n1.md").unlink()
    (notes / "m1.md").write_text("# Note 1\n\nAbout THING1.\n")
    os.utime(notes / "m1.md", ns=(time, time))
    report = await sync(services, notes)
    found = (await stored(engine))[point_id("things", "notes/m1.md", 0)][0]

    assert (report.moved, "tags" in found) == ({}, False)
    assert [note.partition(", kept 30 days")[0] for _, note in report.notes] == [
        "'notes/n1.md' was written by a caller and is removed"
    ]


@pytest.mark.parametrize("first", ["a.jsonl", "z.jsonl"])
async def test_a_text_that_moves_from_one_list_to_another_is_kept(engine, services, first, notes):
    other = {"a.jsonl": "z.jsonl", "z.jsonl": "a.jsonl"}[first]
    rewrite(notes / first, '{"id": "m", "text": "moves"}\n{"id": "s", "text": "stays"}\n')
    rewrite(notes / other, '{"id": "t", "text": "there"}\n')
    await sync(services, notes)
    rewrite(notes / first, '{"id": "s", "text": "stays"}\n')
    rewrite(notes / other, '{"id": "t", "text": "there"}\n{"id": "m", "text": "moves"}\n')
    report = await sync(services, notes)
    found = await stored(engine)
    again = await sync(services, notes)

    assert report.problems == []
    assert found[point_id("things", "m", 0)][0]["doc"]["file"]["path"] == f"notes/{other}"
    assert counts(again) == (0, 0, 0, 9, 0)


async def test_a_mirror_leaves_alone_what_is_of_other_folders_and_tools(
    engine, services, notes, tmp_path
):
    other = tmp_path / "other"
    shutil.copytree(notes, other)
    await services.store.store(NewDocument("by hand", id="hand"), "things")
    await sync(services, other)
    await sync(services, notes)
    rewrite(notes / "n1.md", "other")
    report = await sync(services, notes / "n1.md")
    (notes / "n2.md").unlink()
    await sync(services, notes, selection=Selection(include=("*.md",)))
    found = await stored(engine)

    assert (report.changed, report.removed) == (["notes/n1.md"], []), "a file without the others"

    assert point_id("things", "hand", 0) in found
    assert point_id("things", "other/n2.md", 0) in found
    assert point_id("things", "notes/n2.md", 0) not in found


@pytest.mark.parametrize("gone", ["one.md", ""])
async def test_a_single_file_whose_drive_goes_away_keeps_its_text(engine, services, gone, notes):
    file = notes / "drive" / "one.md"
    file.parent.mkdir()
    file.write_text("the lamp")
    request = SyncRequest(tuple(sources([file])), "things", mirror=True)
    first = await services.sync(request)
    shutil.rmtree(file.parent)
    if gone:
        file.parent.mkdir()
    report = await services.sync(request, before=first)
    found = await stored(engine)

    assert counts(report) == (0, 0, 0, 0, 1)
    assert report.problems[0].reason == "cannot be read: No such file or directory"
    assert len(found) == 1


async def test_a_drive_that_goes_away_during_a_run_takes_no_text_along(
    engine, services, notes, monkeypatch
):
    await sync(services, notes)
    before = await stored(engine)
    for file in notes.rglob("*.*"):
        rewrite(file, "changed")
    read = Sync._read

    def gone(self: Sync, found: Any) -> Any:
        shutil.rmtree(notes, ignore_errors=True)
        return read(self, found)

    monkeypatch.setattr(Sync, "_read", gone)
    report = await sync(services, notes)

    assert (report.removed, len(report.problems)) == ([], 7)
    assert await stored(engine) == before


@pytest.mark.parametrize("again", [False, True])
async def test_a_collection_that_was_deleted_elsewhere_is_filled_anew(
    engine, services, again, notes
):
    first = await sync(services, notes)
    before = await stored(engine)
    await engine.delete_collection("things")
    if again:
        async with memory_services(engine=engine) as other:
            await other.store.store(NewDocument("by hand", id="hand"), "things", create=True)
            await engine.delete("things", [point_id("things", "hand", 0)])
    rewrite(notes / "n1.md", (notes / "n1.md").read_text())
    report = await sync(services, notes, before=first, create=True)
    after = await stored(engine)

    assert after.keys() == before.keys()
    assert counts(report) == (7, 0, 0, 0, 0)


async def test_a_dry_run_says_what_would_be_and_does_nothing(engine, encoder, services, notes):
    first = await sync(services, notes, dry_run=True)
    assert not await engine.collection_exists("things")
    await sync(services, notes)
    encoder.documents = []
    before = await stored(engine)
    rewrite(notes / "n1.md", "other")
    rewrite(notes / "n2.md", (notes / "n2.md").read_text())
    (notes / "n3.md").unlink()
    (notes / "bad.md").write_bytes(b"\0")
    second = await sync(services, notes, dry_run=True)
    after = await stored(engine)

    assert counts(first) == (7, 0, 0, 0, 0)
    assert (second.changed, second.removed) == (["notes/n1.md"], ["notes/n3.md"])
    assert counts(second) == (0, 1, 1, 5, 1)
    assert (encoder.documents, after) == ([], before)


@pytest.mark.process
async def test_a_run_that_is_cancelled_ends_the_process_that_reads(services, notes, monkeypatch):
    (notes / "slow.eml").write_bytes(b"To: " + b"a <a@b.c>, " * 80_000 + b"\n\nlamp\n")
    readers: list[Reader] = []
    make = Reader.__init__
    monkeypatch.setattr(Reader, "__init__", lambda one: (make(one), readers.append(one))[0])
    running = asyncio.create_task(sync(services, notes))
    while not (readers and readers[0]._process):
        if running.done():
            await running
        await asyncio.sleep(0.01)
    process = readers[0]._process
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert process.returncode is not None


async def test_every_bad_file_is_accounted_for_and_none_is_fatal(tmp_path):
    folder = tmp_path / "bad"
    expected = bad_files.make(folder)
    (folder / "good.md").write_text("# Lamp\n\nA good file.")
    async with memory_services() as services:
        report = await sync(services, folder)
        again = await sync(services, folder, before=report)

    said = {one.path.removeprefix("bad/").rstrip("/"): one.reason for one in report.problems}
    files = {path.removeprefix("bad/") for path in report.new}
    shown = {name.encode("utf-8", "replace").decode(): why for name, why in expected.items()}
    assert len(expected) >= 15
    assert files == {"good.md", *(name for name, why in shown.items() if not why)}
    assert said.keys() == {name for name, why in shown.items() if why}
    assert [name for name, why in said.items() if shown[name] not in why] == []
    noted = ("some-lines.jsonl", "twice.jsonl", "front-matter.md", "bomb.md")
    assert dict(report.notes).keys() == {f"bad/{name}" for name in noted}
    assert counts(again) == (0, 0, 0, len(files), len(said))


async def test_two_runs_at_once_make_what_one_makes(engine, services, notes):
    await sync(services, notes)
    expected = await stored(engine)
    await engine.delete_collection("things")
    services.catalog.forget("things")
    await services.store.ensure("things", create=True)
    await asyncio.gather(sync(services, notes), sync(services, notes))

    assert await stored(engine) == expected


async def test_a_run_that_stopped_half_way_is_taken_up_and_what_was_deleted_elsewhere_comes_back(
    engine, services, notes
):
    first = await sync(services, notes)
    expected = await stored(engine)
    await engine.delete("things", sorted(expected)[::2])
    report = await sync(services, notes)

    assert await stored(engine) == expected
    assert 0 < report.texts < len(expected)

    await engine.delete("things", [point_id("things", "notes/n1.md", 0)])
    report = await sync(services, notes, before=first)
    assert (await stored(engine), counts(report)) == (expected, (1, 0, 0, 6, 0))


@pytest.mark.parametrize("state", ["failed", "downloading", "loading"])
async def test_without_a_model_files_are_found_by_keywords_and_get_their_vectors_later(
    encoder, services, notes, state
):
    encoder.be(state)
    report = await sync(services, notes)
    page = await find(services, "thing3", "things")
    before = encoder.documents.copy()
    encoder.be("ready")
    filled = await services.shared._backfill.fill_all()
    again = await sync(services, notes)

    assert (report.pending, before, counts(report)) == (True, [], (7, 0, 0, 0, 0))
    assert filled == len(encoder.documents) == report.texts
    assert texts(page) == ["# Note 3\n\nAbout thing3.\n"]
    assert (again.pending, counts(again)) == (False, (0, 0, 0, 7, 0))


async def test_the_state_of_one_run_saves_the_next_one_reading_it(engine, services, notes):
    first = await sync(services, notes)
    rewrite(notes / "n1.md", "other")
    (notes / "n2.md").unlink()
    engine.calls.clear()
    second = await sync(services, notes, before=first)
    rewrite(notes / "n1.md", "a third time")
    third = await sync(services, notes, before=second)
    scrolled = [name for name, _ in engine.calls if name == "scroll"]
    fourth = await sync(services, notes)

    assert scrolled == []
    assert counts(second) == (0, 1, 1, 5, 0)
    assert counts(third) == (0, 1, 0, 5, 0)
    assert counts(fourth) == (0, 0, 0, 6, 0)


async def test_what_a_caller_wrote_under_the_id_of_a_files_text_is_kept_as_a_version(
    services, notes
):
    await sync(services, notes)
    corrected = NewDocument("Corrected by hand.", id="notes/n1.md")
    await services.store.store(corrected, "things")
    tagged = await services.store.points.first("things", "notes/n2.md")
    await services.revision.revise(tagged, Changes(tags=("by hand",)))
    rewrite(notes / "n2.md", "# Note 2\n\nAnother text.\n")
    rewrite(notes / "n3.md", "# Note 3\n\nAnother text.\n")
    report = await sync(services, notes)
    ours = await services.history.versions("notes/n1.md")
    tags = await services.history.versions("notes/n2.md")
    version = await services.history.version(tags[0].id)

    assert "Corrected by hand." in [one.document.text for one in ours]
    assert version.parts[0].tags == ("by hand",)
    assert await services.history.versions("notes/n3.md") == []
    assert [path for path, _ in report.notes] == ["notes/n1.md", "notes/n2.md"]
    assert report.notes[0][1].startswith(
        "'notes/n1.md' was written by a caller and is replaced, kept 30 days: id notes/n1.md@"
    )


async def test_what_a_caller_changed_in_a_text_of_a_file_that_goes_is_kept_as_a_version(
    services, notes
):
    await sync(services, notes)
    for name in ("notes/n2.md", "two"):
        one = await services.store.points.first("things", name)
        await services.revision.revise(one, Changes(tags=("by hand",)))
    (notes / "n1.md").unlink()
    (notes / "n2.md").unlink()
    rewrite(notes / "list.jsonl", '{"id": "one", "text": "first lamp"}\n')
    report = await sync(services, notes)
    kept = {}
    for name in ("notes/n1.md", "notes/n2.md", "two"):
        kept[name] = [one.deleted for one in await services.history.versions(name)]

    assert kept == {"notes/n1.md": [], "notes/n2.md": [True, False], "two": [True, False]}
    assert sorted(path for path, _ in report.notes) == ["notes/list.jsonl", "notes/n2.md"]


async def test_an_engine_that_is_away_for_a_moment_before_the_swap_is_asked_again(
    services, notes, monkeypatch
):
    monkeypatch.setattr("mcp_server_qdrant.ingest.files.sync.RETRIES", (0.0,))
    points, away = services.store.points, [EngineUnavailable("It is away.")]
    by_id = points.by_id

    async def once_away(*given: Any) -> Any:
        if away:
            raise away.pop()
        return await by_id(*given)

    points.by_id = once_away
    report = await sync(services, notes)

    assert (counts(report), away) == ((7, 0, 0, 0, 0), [])
