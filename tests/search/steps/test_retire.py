"""Texts that another one supersedes."""

from mcp_server_qdrant.core.datatypes import Hit
from mcp_server_qdrant.search.steps.retire import FACTOR, retire


def hit(point: int, score: float, by: str | None = None) -> Hit:
    return Hit("a", point, score, score, 0.0, None, None, {"superseded_by": by} if by else None)


def test_they_come_behind_all_others_with_their_relevance():
    ranked = retire([hit(1, 0.9, "new"), hit(2, 0.5), hit(3, 0.05)])

    assert [(one.id, one.relevance) for one in ranked] == [(2, 0.5), (3, 0.05), (1, 0.9)]
    assert ranked[2].factors == (("superseded", FACTOR),)


def test_without_any_the_order_stays():
    hits = [hit(1, 0.2), hit(2, 0.3)]

    assert retire(hits) == hits
