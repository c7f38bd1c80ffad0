"""Which ways of searching are compared."""

import pytest

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.evaluation.sweep import (
    ALGORITHMS,
    SWEPT,
    Configuration,
    configurations,
)


def names(algorithms: list[str], *sweeps: str) -> list[str]:
    return [one.name for one in configurations(algorithms, sweeps)]


def test_without_a_sweep_all_algorithms_are_compared():
    assert names([]) == list(ALGORITHMS)


def test_a_sweep_begins_with_the_settings_as_they_are_and_counts_both_ends():
    assert names([], "semantic_weight=0:1:0.25") == [
        "hybrid",
        "hybrid semantic_weight=0",
        "hybrid semantic_weight=0.25",
        "hybrid semantic_weight=0.5",
        "hybrid semantic_weight=0.75",
        "hybrid semantic_weight=1",
    ]


def test_ten_steps_of_a_tenth_are_the_numbers_that_people_mean():
    found = configurations([], ["semantic_weight=0:1:0.1"])[1:]

    assert [one.fields["semantic_weight"] for one in found] == [n / 10 for n in range(11)]


def test_several_sweeps_are_combined():
    assert names([], "keyword_weight=0.2,0.4", "recency_weight=0,1")[1:] == [
        "hybrid keyword_weight=0.2 recency_weight=0",
        "hybrid keyword_weight=0.2 recency_weight=1",
        "hybrid keyword_weight=0.4 recency_weight=0",
        "hybrid keyword_weight=0.4 recency_weight=1",
    ]


def test_a_parameter_may_be_one_of_a_few_words():
    assert names([], "priority=natural,hard")[1:] == [
        "hybrid priority=natural",
        "hybrid priority=hard",
    ]


def test_an_algorithm_of_one_leg_is_not_searched_again_for_each_weight():
    assert names(["keyword", "hybrid"], "semantic_weight=0,1", "recency_weight=0.5") == [
        "keyword",
        "keyword recency_weight=0.5",
        "hybrid",
        "hybrid semantic_weight=0 recency_weight=0.5",
        "hybrid semantic_weight=1 recency_weight=0.5",
    ]


def test_a_configuration_makes_the_request_that_qdrant_find_would():
    one = Configuration("hybrid", {"recency_weight": 0.5, "keyword_weight": 1.0})

    assert one.request("words", ("notes",), 10) == SearchRequest(
        query="words",
        collections=("notes",),
        limit=10,
        algorithm="hybrid",
        score_threshold=0.0,
        recency_weight=0.5,
        keyword_weight=1.0,
    )


def test_every_field_that_is_named_here_is_one_of_a_request():
    assert set(SearchRequest.model_fields) >= SWEPT


def test_weights_that_add_up_to_more_than_1_are_left_out():
    assert names([], "semantic_weight=0.4,0.8,0.9", "keyword_weight=0.5") == [
        "hybrid",
        "hybrid semantic_weight=0.4 keyword_weight=0.5",
    ]


@pytest.mark.parametrize(
    ("sweep", "sentence"),
    [
        ("semantic=0:1:0.1", "^--sweep semantic=0:1:0.1: there is no 'semantic'; there are score_"),
        ("limit=1:5:1", "there is no 'limit'"),
        ("semantic_weight", "--sweep semantic_weight has no values"),
        ("semantic_weight=", "semantic_weight must be "),
        ("semantic_weight=a:b:c", "is not first:last:step"),
        ("semantic_weight=0:1", "semantic_weight must be "),
        ("semantic_weight=nan", "semantic_weight must be "),
        ("semantic_weight=0:inf:0.1", "is not first:last:step"),
        ("semantic_weight=0:1:0", "is not first:last:step"),
        ("semantic_weight=-1,0", "semantic_weight must be "),
        ("recency_weight=0:2:0.5", "recency_weight must be "),
        ("semantic_weight=0:1:0.000000001", "more than 200 ways"),
        ("fuzzy_boost=0,2", "fuzzy_boost must be "),
        ("priority=high", "'natural', 'soft', 'medium' or 'hard'"),
    ],
)
def test_what_is_wrong_with_a_sweep_is_said(sweep, sentence):
    with pytest.raises(RequestError, match=sentence):
        configurations([], [sweep])


def test_an_unknown_algorithm_and_a_parameter_swept_twice_are_refused():
    with pytest.raises(RequestError, match="no algorithm 'fast': hybrid, semantic"):
        configurations(["fast"], [])
    with pytest.raises(RequestError, match="swept once only"):
        configurations([], ["semantic_weight=0", "semantic_weight=1"])
