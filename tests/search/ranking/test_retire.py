"""Texts that another one supersedes."""

from mcp_server_qdrant.search.ranking import SUPERSEDED, promote_successors
from mcp_server_qdrant.search.relevance import Hit
from tests.support import read_hit


def hit(point: int, score: float, by: int | None = None) -> Hit:
    payload = {"doc": {"id": str(point), "chunk": 0, "chunks": 1}} | (
        {"superseded_by": str(by)} if by else {}
    )
    return read_hit(Hit("a", point, score, score, 0.0, None, None, payload))


def test_a_successor_takes_the_place_whatever_its_relevance():
    ranked = promote_successors([hit(1, 0.9, by=4), hit(2, 0.5), hit(3, 0.05), hit(4, 0.0)])

    assert [(one.id, one.relevance, one.supersedes) for one in ranked] == [
        (4, 0.9, "1"),
        (2, 0.5, None),
        (3, 0.05, None),
        (1, 0.9, None),
    ]
    assert ranked[3].factors == (("superseded", SUPERSEDED),)


def test_a_better_successor_keeps_its_own_place():
    ranked = promote_successors([hit(2, 0.9), hit(1, 0.4, by=2)])

    assert [(one.id, one.score, one.supersedes) for one in ranked] == [
        (2, 0.9, "1"),
        (1, 0.4 * SUPERSEDED, None),
    ]


def test_a_successor_that_is_more_relevant_stays_so():
    aged = hit(2, 0.9).rescored("recency", 0.1)
    first = promote_successors([hit(1, 0.4, by=2), aged])[0]

    assert (first.id, first.relevance, first.score) == (2, 0.9, 0.4)


def test_the_last_of_several_versions_takes_the_place_of_all():
    ranked = promote_successors([hit(1, 0.9, by=2), hit(2, 0.5, by=3), hit(3, 0.1)])

    assert [one.id for one in ranked] == [3, 1, 2]
    assert (ranked[0].score, ranked[0].supersedes) == (0.9, "2")


def test_without_its_successor_it_comes_behind_all_others():
    assert [one.id for one in promote_successors([hit(1, 0.9, by=7), hit(2, 0.1)])] == [2, 1]


def test_versions_that_supersede_one_another_end():
    assert len(promote_successors([hit(1, 0.9, by=2), hit(2, 0.5, by=1)])) == 2


def test_without_any_the_order_stays():
    hits = [hit(1, 0.2), hit(2, 0.3)]

    assert promote_successors(hits) == hits
