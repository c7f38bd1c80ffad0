"""The arguments of qdrant-find as one SearchRequest, and a page that an agent can afford."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from mcp_server_qdrant.core.datatypes import Document, Passage, Result, SearchPage
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import LINES, WHOLE, FilterableField, SearchRequest
from mcp_server_qdrant.core.sentences import tokens
from mcp_server_qdrant.tools.find import FindArguments, arguments_with, trim_page
from mcp_server_qdrant.tools.rendering import as_data, as_meta, as_text

LEAF = {"key": "metadata.a", "match": {"value": 1}}


def request(*fields: FilterableField, **arguments) -> SearchRequest:
    return arguments_with(fields).model_validate(arguments).request()


def test_what_tuning_says_stands_before_an_argument_of_its_own_and_null_says_nothing():
    asked = request(query="x", rerank=False, tuning={"rerank": True, "group_size": None})

    assert type(asked) is SearchRequest
    assert asked.rerank is True
    assert "group_size" not in asked.model_fields_set


def test_the_variable_of_a_setting_is_no_name_of_an_argument():
    for wrong in ({"RERANK": True}, {"tuning": {"RERANK": True}}):
        with pytest.raises(ValidationError, match="RERANK"):
            FindArguments.model_validate({"query": "x"} | wrong)


def test_tags_fields_of_an_operator_and_a_filter_must_all_hold():
    bed = FilterableField(name="bed", description="d", field_type="integer", condition=">=")
    asked = request(bed, query="x", tags="a, b", bed=3, query_filter={"must": LEAF})
    either, own = asked.where()["must"]

    assert [one["match"]["any"] for one in either["should"]] == [["a", "b"]] * 2
    assert own == {"must": [LEAF, {"key": "metadata.bed", "range": {"gte": 3}}]}


def test_without_a_query_the_newest_are_listed_but_not_within_a_text():
    for nothing in ({}, {"query": " "}, {"tags": ["a"]}, {"query_filter": {}}, {"limit": 3}):
        assert request(**nothing).query.strip() == ""
    with pytest.raises(RequestError, match=r"^query is empty"):
        request(within="x")


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


def page(count: int, **more) -> SearchPage:
    documents = [Document(number, "notes", "text", f"Title {number}") for number in range(count)]
    return SearchPage("q", [Result(one, 0.5, 0.5) for one in documents], (), **more)


LIMITED = SearchRequest(query="q", limit=100)


def test_what_is_not_shown_is_told_with_how_to_see_it():
    assert trim_page(page(2, more=5), LIMITED).advice == ["5 more results: raise limit."]
    assert trim_page(page(100, more=5), LIMITED).advice == []
    assert trim_page(page(2), LIMITED).advice == []


def test_more_passages_of_a_text_are_told_of_the_first_that_has_some():
    found = page(3)
    results = [replace(one, left=left) for one, left in zip(found.results, (0, 1, 7), strict=True)]

    shown = trim_page(replace(found, results=results), LIMITED)

    assert shown.advice == ["1 more passage in result 2: give its id as within."]


def test_a_page_ends_with_a_few_lines_behind_its_last_passage():
    found = page(9, more=1)
    quoted = [replace(one, passages=(Passage("text", one.document),)) for one in found.results[:4]]

    shown = trim_page(
        replace(found, results=[*quoted, *found.results[4:]]), SearchRequest(query="q")
    )

    assert (len(shown.results), shown.more) == (4 + LINES, 1 + 9 - 4 - LINES)


def test_weak_matches_are_not_followed_by_an_offer_of_more():
    assert trim_page(page(2, more=5, weak=True), LIMITED).advice == []


def test_nothing_is_ruled_out_while_files_are_still_coming():
    empty = page(0, notes=["b: broken", "Nothing found."], nothing="Nothing found.")

    assert trim_page(empty, LIMITED, ["a is being read."]).notes == [
        "a is being read.",
        "b: broken",
    ]
    assert trim_page(empty, LIMITED).notes == ["b: broken", "Nothing found."]


def test_a_program_gets_values_where_an_agent_gets_advice():
    shown = trim_page(page(2, more=5, notes=["Said."]), LIMITED)

    assert as_data(shown, "minimal")["notes"] == ["Said.", "5 more results: raise limit."]
    assert as_meta(shown) == {"notes": ["Said."], "more": 5, "weak": False}


def test_more_passages_of_the_text_that_is_searched_need_a_higher_limit():
    found = page(1)
    found = replace(found, results=[replace(found.results[0], left=51)])

    for limit, said in ((None, ["51 more passages: raise limit."]), (100, [])):
        asked = SearchRequest(query="q", within="x", limit=limit)
        assert trim_page(found, asked).advice == said


def test_a_page_of_whole_texts_without_a_limit_has_as_many_as_have_room():
    found = page(9)
    long = [
        replace(one, document=one.document._replace(text="roses need sun " * 60, title=None))
        for one in found.results
    ]
    found = replace(found, results=long)

    shown = trim_page(found, SearchRequest(query="q", mode="full"))
    assert (len(shown.results), shown.more) == (6, 3)
    assert tokens(as_text(shown, "full")) <= WHOLE
    assert shown.advice[-1] == "3 more results: raise limit."
    assert len(trim_page(found, SearchRequest(query="q", mode="full", limit=9)).results) == 9
    assert (
        len(trim_page(replace(found, weak=True), SearchRequest(query="q", mode="full")).results)
        == 1
    )
