"""JSON lines: one text per line."""

import json
from datetime import UTC, datetime

from mcp_server_qdrant.ingest.load_jsonl import read


def rows(*given: object) -> bytes:
    return "\n".join(json.dumps(one) for one in given).encode()


def test_a_line_is_a_text_with_its_id_and_metadata():
    given = {"id": "d7", "text": "roses", "metadata": {"bed": 1}, "title": "T", "tags": ["a"]}
    (one,) = read("n/x.jsonl", rows(given | {"created_at": "2026-01-02"})).texts

    assert (one.id, one.text, one.metadata, one.title) == ("d7", "roses", {"bed": 1}, "T")
    assert (one.tags, one.created_at) == (("a",), datetime(2026, 1, 2, tzinfo=UTC))


def test_the_corpus_of_a_benchmark_keeps_its_ids():
    (one,) = read("n/corpus.jsonl", rows({"_id": 12, "title": "", "text": "roses"})).texts

    assert (one.id, one.title, one.metadata) == ("12", "", None)


def test_other_keys_are_metadata():
    (one,) = read("n/x.jsonl", rows({"text": "a", "year": 2020, "metadata": {"k": 1}})).texts

    assert one.metadata == {"year": 2020, "k": 1}


def test_a_line_without_id_is_named_after_its_file_and_text():
    one, other = read("n/x.jsonl", rows({"text": "a"}, {"text": "b"})).texts

    assert one.id.startswith("n/x.jsonl#")
    assert one.id != other.id
    assert [one.id, other.id] == [
        text.id for text in read("n/x.jsonl", rows({"text": "a"}, {"text": "b"})).texts
    ]


def test_lines_that_are_no_texts_are_left_out_and_named():
    data = b"\n".join(
        [
            rows({"id": 1, "text": "kept"}),
            b"",
            b"oops",
            b"[1]",
            rows({"id": 2}),
            rows({"id": 1, "text": "again"}),
            b"also not",
            "{'é'}".encode("latin-1"),
            rows({"text": "x", "m": json.loads("[" * 40 + "]" * 40)}),
            b'{"text": ' + b"[" * 100_000,
            rows({"text": "fine \ud800"}),
        ]
    )
    contents = read("n/x.jsonl", data)

    assert [one.text for one in contents.texts] == ["kept", "fine \ufffd"]
    assert contents.notes == [
        "line 3 is not JSON (likewise 7, 10)",
        "line 4 is not an object",
        "line 5 has no text",
        "line 6 has the id of an earlier line",
        "line 8 is not UTF-8: byte 2 is 0xe9",
        "line 9 has metadata nested deeper than 32 levels",
    ]


def test_many_bad_lines_are_counted():
    contents = read("n/x.jsonl", b"x\n" * 1000)

    assert contents.notes == ["line 1 is not JSON (likewise 2, 3, 4, 5, 6 and 994 more)"]


def test_a_line_too_long_is_left_out():
    data = b'{"text": "' + b"a" * 10_000_000 + b'"}'

    assert read("n/x.jsonl", data).notes == ["line 1 is longer than 10 MB"]
