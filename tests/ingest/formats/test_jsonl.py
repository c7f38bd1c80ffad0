"""JSON lines: one text per line."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.ingest.formats import jsonl as load_jsonl
from mcp_server_qdrant.ingest.formats.base import KINDS, storable
from mcp_server_qdrant.ingest.formats.jsonl import IDS, TEXTS, TIMES, read


def rows(*given: object) -> bytes:
    return "\n".join(json.dumps(one) for one in given).encode()


def test_a_line_is_a_text_with_its_id_and_metadata():
    given = {"id": "d7", "text": "roses", "metadata": {"bed": 1}, "title": "T", "tags": ["a"]}
    (one,) = read("n/x.jsonl", rows(given | {"created_at": "2026-01-02"})).texts

    assert (one.id, one.text, one.metadata, one.title) == ("d7", "roses", {"bed": 1}, "T")
    assert (one.tags, one.created_at) == (("a",), datetime(2026, 1, 2, tzinfo=UTC))


def test_the_corpus_of_a_benchmark_keeps_its_ids_and_other_keys_are_metadata():
    given = (
        {"_id": 12, "title": "", "text": "roses"},
        {"text": "a", "year": 1, "metadata": {"k": 1}, "note": "", "more": []},
    )
    one, other = read("n/corpus.jsonl", rows(*given)).texts

    assert (one.id, one.title, one.metadata) == ("12", "", None)
    assert other.metadata == {"year": 1, "k": 1}


def test_a_line_without_id_is_named_after_its_file_and_text():
    both = [read("n/x.jsonl", rows({"text": "a"}, {"text": "b"})).texts for _ in range(2)]
    (one, other), again = ([text.id for text in texts] for texts in both)

    assert one.startswith("n/x.jsonl#")
    assert one != other
    assert [one, other] == again


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


def test_many_bad_lines_are_counted_and_one_too_long_is_left_out():
    long = b'{"text": "' + b"a" * 10_000_000 + b'"}'

    assert read("n/x.jsonl", b"x\n" * 1000 + long).notes == [
        "line 1 is not JSON (likewise 2, 3, 4, 5, 6 and 994 more)",
        "line 1,001 is longer than 10 MB",
    ]


IMPOSSIBLE = [
    *('"9999-12-31T23:59:59-14:00"', '"0001-01-01T00:00:00+14:00"', '"2026-02-30"'),
    *("NaN", "-Infinity", "1e999", "253402300800000", "9" * 4_000, "true"),
]


def test_a_date_that_no_calendar_has_is_named_by_its_lines():
    lines = [f'{{"text": "t{n}", "created_at": {one}}}' for n, one in enumerate(IMPOSSIBLE)]
    contents = read("n/x.jsonl", "\n".join(lines).encode())

    assert len(contents.texts) == len(IMPOSSIBLE)
    assert {one.created_at for one in contents.texts} == {None}
    assert contents.notes == [
        "line 1 has 'created_at' that is no day of the calendar, or not between the years 1 and "
        "9999 (likewise 2, 3, 4, 5, 6 and 3 more)"
    ]


def test_a_line_that_raises_what_nobody_foresaw_is_left_out_alone(monkeypatch):
    def stumbling(row: Any) -> Any:
        if row["text"] == "bad":
            raise MemoryError
        return storable(row)

    monkeypatch.setattr(load_jsonl, "storable", stumbling)
    contents = read("n/x.jsonl", rows({"text": "one"}, {"text": "bad"}, {"text": "two"}))

    assert [one.text for one in contents.texts] == ["one", "two"]
    assert contents.notes == ["line 2 cannot be read: an unexpected MemoryError"]


def test_of_many_kinds_of_faults_the_first_are_named():
    lines = b"\n".join(b"x" * n + b"\xff" for n in range(200))
    notes = read("n/x.jsonl", lines).notes

    assert len(notes) == KINDS + 1
    assert notes[-1].startswith("line 51 has another fault (likewise 52, 53, 54, 55, 56 and 144 ")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs"]))
    | st.sampled_from([10**400, "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
keys = st.sampled_from([*IDS, *TEXTS, *TIMES, "title", "tags", "metadata"]) | st.text()


@settings(deadline=None)
@given(st.lists(st.dictionaries(keys, values).map(json.dumps) | st.text(), max_size=5))
def test_whatever_a_line_holds_the_others_are_read(lines):
    kept = json.dumps({"id": "the very last", "text": "kept"})
    contents = read("n/x.jsonl", "\n".join([*lines, kept]).encode("utf-8", "replace"))

    assert contents.texts[-1].text == "kept"
    assert all("unexpected" not in note for note in contents.notes)


def test_without_a_key_of_text_all_values_are_the_text():
    chat = {"messages": [{"role": "user", "content": "gull?"}, {"role": "bot", "content": "yes"}]}
    plain = {"id": "a", "when": "May", "note": "lamp", "tags": ["t"]}
    one, other = read("n/x.jsonl", f"{json.dumps(chat)}\n{json.dumps(plain)}".encode()).texts

    assert one.text == "role: user\ncontent: gull?\nrole: bot\ncontent: yes"
    assert (other.id, other.text) == ("a", "id: a\nwhen: May\nnote: lamp\ntags: t")
    assert other.tags == ("t",)
    assert (one.metadata, other.metadata) == (None, {"when": "May", "note": "lamp"})
