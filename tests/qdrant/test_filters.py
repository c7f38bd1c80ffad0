"""What callers may filter by."""

import json
from uuid import uuid4

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import InvalidFilter
from mcp_server_qdrant.http.page.desk import MOST
from mcp_server_qdrant.qdrant.filters import MAX_DEPTH, parse

EXAMPLE = '{"must": [{"key": "metadata.project", "match": {"value": "atlas"}}]}'


@pytest.mark.parametrize("raw", [None, {}])
def test_nothing_is_no_filter(raw):
    assert parse(raw) is None


def test_qdrants_own_form_is_read():
    raw = {
        "must": [
            {"key": "metadata.project", "match": {"value": "atlas"}},
            {"key": "metadata.year", "range": {"gte": 2024}},
            {"should": [{"key": "tags", "match": {"any": ["a", "b"]}}, {"is_null": {"key": "x"}}]},
        ],
        "must_not": [{"key": "done", "match": {"value": True}}],
    }
    parsed = parse(raw)

    assert isinstance(parsed, models.Filter)
    assert parsed.must[0].match == models.MatchValue(value="atlas")
    assert parsed.must[1].range.gte == 2024
    assert isinstance(parsed.must[2], models.Filter)
    assert parsed.must_not[0].match.value is True


def test_two_tests_of_one_key_are_asked_apart_wherever_they_stand():
    two = {"key": "n", "match": {"value": 7}, "range": {"gte": 8}, "is_null": None}
    apart = {"must": [{"key": "n", "match": {"value": 7}}, {"key": "n", "range": {"gte": 8}}]}
    for raw, expected in (
        ({"must": two}, {"must": apart}),
        ({"must_not": [{"should": [two]}]}, {"must_not": [{"should": [apart]}]}),
        (
            {"must": [{"nested": {"key": "parts", "filter": {"must": [two]}}}]},
            {"must": [{"nested": {"key": "parts", "filter": {"must": [apart]}}}]},
        ),
    ):
        assert parse(raw) == models.Filter.model_validate(expected)


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        ({"most": []}, "'most' is not one of must, should, must_not, min_should"),
        ({"key": "a", "match": {"value": 1}}, "'key' is not one of must"),
        ({"must": 1}, ": must is not a condition Qdrant knows"),
        ({"must": ["a = 1"]}, ": must.0 is not a condition"),
        ({"must": [{"key": "a", "equals": 1}]}, ": must.0.equals is not a condition"),
        ({"should": {"key": "a", "range": {"from": 1}}}, ": should.range.from is not a condition"),
        (
            {"must": [{"key": "a", "match": {"value": 1}}, {"must_not": [{"key": 7}]}]},
            ": must.1.must_not.0.key is not a condition",
        ),
    ],
)
def test_what_is_wrong_is_said_with_an_example_that_works(raw, what):
    with pytest.raises(InvalidFilter) as caught:
        parse(raw)

    text = str(caught.value)
    assert text.startswith("query_filter is not a Qdrant filter: ")
    assert what in text
    assert "union[" not in text
    assert text.endswith(f"Example: {EXAMPLE}")


NOTHING = {"key": "metadata.project"}


@pytest.mark.parametrize(
    "raw",
    [
        {"must": [NOTHING]},
        {"must_not": NOTHING},
        {"should": [{"must": [{"must": NOTHING}]}]},
        {"min_should": {"conditions": [NOTHING], "min_count": 1}},
        {"must": [{"nested": {"key": "list", "filter": {"must": [NOTHING]}}}]},
    ],
)
def test_a_condition_that_asks_nothing_is_refused(raw):
    """Engines disagree on it: a server refuses it, the local mode lets every point pass."""
    with pytest.raises(InvalidFilter, match="the condition on the field"):
        parse(raw)


@pytest.mark.parametrize("wrong", ["doc-1", "42", -1, 2**64])
def test_ids_that_no_point_has_are_refused(wrong):
    known = [0, 42, "6f1ca6a5-6dd5-5d1b-9f0e-4b1f3cf0a2a7", "6F1CA6A56DD55D1B9F0E4B1F3CF0A2A7"]
    assert parse({"must": [{"has_id": known}]}) is not None

    with pytest.raises(InvalidFilter, match="has_id takes ids of points, as qdrant-find shows"):
        parse({"must": [{"has_id": [*known, wrong]}]})


def nested(levels: int) -> dict:
    """A filter of this many mappings and lists, one in the other."""
    raw: dict = {"must": [{"key": "a", "match": {"value": 1}}]}
    for _ in range(levels // 2):
        raw = {"must": [raw]}
    return raw


def test_deep_filters_are_refused_before_they_can_hurt():
    assert parse(nested(MAX_DEPTH - 4)) is not None
    for levels in (MAX_DEPTH, 200, 100_000):
        with pytest.raises(InvalidFilter, match="nested deeper than 16 levels"):
            parse(nested(levels))


def leaf(number: int = 0) -> dict:
    return {"key": f"a{number}", "match": {"value": 1}}


SPREAD = {  # 4 groups, and conditions in each kind of clause
    "must": [{"should": [leaf(n) for n in range(12)]}, {"must_not": [leaf()] * 12}],
    "should": leaf(),
    "must_not": [{"nested": {"key": "l", "filter": {"must": [leaf()] * 14}}}],
    "min_should": {"conditions": [{"must": [leaf()] * 12}] + [leaf()] * 9, "min_count": 1},
}


def test_64_conditions_are_taken_wherever_they_stand():
    assert parse({"should": [leaf(n) for n in range(64)]}) is not None
    assert parse(SPREAD) is not None


@pytest.mark.parametrize("clause", ["must", "should", "must_not"])
def test_one_condition_more_is_refused_with_the_limit(clause):
    for raw in (
        {clause: [leaf()] * 65},
        {clause: [leaf()] * 40_000},
        {**SPREAD, clause: [SPREAD, leaf()]},
    ):
        with pytest.raises(InvalidFilter, match="A filter has at most 64 conditions"):
            parse(raw)


def test_the_texts_of_the_longest_list_of_the_page_fit_into_a_filter():
    seen = [str(uuid4()) for _ in range(MOST)]

    assert parse({"must_not": [{"has_id": seen}]}) is not None


def test_longer_filters_are_refused_with_the_limit():
    with pytest.raises(InvalidFilter, match="A filter has at most 100,000 characters"):
        parse({"must": [{"key": "a", "match": {"any": list(range(20_000))}}]})


@pytest.mark.parametrize("kind", ["text", "text_any", "phrase", "prefix"])
def test_texts_to_match_are_short(kind):
    assert parse({"must": [{"key": "a", "match": {kind: "x" * 500}}]}) is not None

    with pytest.raises(InvalidFilter, match="A text to match in a filter has at most 500 char"):
        parse({"must": [{"key": "a", "match": {kind: "x" * 501}}]})


@pytest.mark.parametrize(
    "raw",
    [
        {"must": {f"k{n}": 1 for n in range(100_000)}},
        {"must": [{"key": "a", "match": {"any": [{}] * 9_000}}]},
        {"x" * 1_000_000: []},
    ],
)
def test_garbage_is_refused_in_a_short_sentence_however_much_it_is(raw):
    with pytest.raises(InvalidFilter) as caught:
        parse(raw)

    assert len(str(caught.value)) < 400


def test_the_example_in_the_error_is_a_filter():
    assert parse(json.loads(EXAMPLE)) is not None
