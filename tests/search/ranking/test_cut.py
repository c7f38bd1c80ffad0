"""Hits that are not shown."""

import pytest

from mcp_server_qdrant.search.ranking import drop_tail
from mcp_server_qdrant.search.relevance import Hit


def hit(point: int, relevance: float, reranked: float | None = None) -> Hit:
    return Hit("a", point, relevance, relevance, 0.01, relevance, None, reranked=reranked)


def shown(hits: list[Hit], threshold: float | None = None) -> list[int]:
    return [hit.id for hit in drop_tail(hits, threshold)]


def test_the_threshold_lets_equal_relevance_through():
    hits = [hit(1, 0.6), hit(2, 0.5), hit(3, 0.4999)]

    assert shown(hits, 0.5) == [1, 2]
    assert shown(hits, 0.0) == [1, 2, 3]


def test_the_tail_far_below_the_best_is_cut():
    assert shown([hit(1, 0.8), hit(2, 0.2), hit(3, 0.19)]) == [1, 2]


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(None, [2, 1]), (0.5, [1]), (0.0, [2, 1, 3])],
)
def test_a_hit_of_the_tail_stays_where_the_reranker_places_it_near_its_best(threshold, expected):
    hits = [hit(2, 0.05, 0.9), hit(1, 0.8, 0.7), hit(3, 0.05, 0.2)]

    assert shown(hits, threshold) == expected
