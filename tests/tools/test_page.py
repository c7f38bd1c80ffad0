"""A page that an agent can afford."""

import json
from dataclasses import replace

import pytest

from mcp_server_qdrant.core.datatypes import Document, Result, SearchPage, Status
from mcp_server_qdrant.tools import text as tool_text
from mcp_server_qdrant.tools.output import find_output
from mcp_server_qdrant.tools.page import DATA, PASSAGES, ROOM, concluded, fitted, tokens


def result(number: int, passage: str) -> Result:
    document = Document(number, "notes", passage, f"Title {number}")
    return Result(document, 0.9 - number / 100, 0.5, passage)


def page(count: int, passage: str) -> SearchPage:
    return SearchPage("q", [result(number, passage) for number in range(1, count + 1)], ())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("plan", 1),
        ("handbooks", 2),
        ("2026-11-22", 6),
        ("Größe", 2),
        ("记忆", 2),
        ("[0.85] notes", 6),
    ],
)
def test_tokens_are_counted_rather_too_many(text, count):
    assert tokens(text) == count


@pytest.mark.parametrize("passage", ["word " * 12, "word " * 45, "一二三四五六七八九十" * 14])
def test_a_page_has_room_for_a_few_passages_and_lines_for_others(passage):
    shown = concluded(fitted(page(50, passage)))
    with_passage = [one for one in shown.results if one.passage]

    assert 1 <= len(with_passage) <= PASSAGES < len(shown.results)
    assert list(shown.results[: len(with_passage)]) == with_passage
    assert tokens(tool_text.page(shown, "minimal")) <= ROOM
    assert shown.more == 50 - len(shown.results) > 0
    assert shown.notes == [f"{shown.more} more with relevance 0.40 or better: raise limit."]


def test_the_page_as_data_has_its_room_too_and_a_line_has_no_passage_there():
    copies = [("notes", f"{number:08x}-0000-4000-8000-000000000000") for number in range(20)]
    found = page(50, "word " * 12)
    found = replace(found, results=[replace(one, also=copies) for one in found.results])

    shown = concluded(fitted(found))
    data = find_output(shown, "minimal")

    assert tokens(json.dumps(data)) <= DATA * ROOM
    assert len(data["results"]) == len(shown.results) < 50
    assert ["text" in one for one in data["results"]] == [
        bool(one.passage) for one in shown.results
    ]
    assert shown.more == 50 - len(shown.results)


def test_many_collections_that_fail_leave_room_for_results():
    late = [Status(f"collection-{n}", "timeout", "No answer in time.") for n in range(200)]
    found = page(50, "word " * 12)

    shown = fitted(replace(found, statuses=late))

    assert len(shown.results) > PASSAGES
    assert list(find_output(shown, "minimal")["collections"]) == [
        f"collection-{n}" for n in range(10)
    ]


def test_what_fits_is_left_as_it_is():
    few = page(4, "word " * 12)

    assert concluded(fitted(few)) == few


def test_the_first_passage_is_shown_whatever_its_length():
    shown = fitted(page(3, "word " * 2_000))

    assert [bool(one.passage) for one in shown.results] == [True]
    assert (shown.more, shown.least) == (2, 0.87)


def test_what_was_found_beyond_the_limit_counts_too():
    found = replace(page(2, "word"), more=5, least=0.4)

    assert concluded(fitted(found)).notes == ["5 more with relevance 0.40 or better: raise limit."]
