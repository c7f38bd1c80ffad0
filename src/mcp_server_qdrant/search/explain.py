"""The reasons for a hit's place, for `explain`."""

from collections.abc import Iterable, Mapping

from mcp_server_qdrant.core.datatypes import Hit, PointId, Scored, Why
from mcp_server_qdrant.search.query import Query
from mcp_server_qdrant.search.relevance import DIGITS, bound

LEGS = ("meaning", "words", "tags")

Ranks = tuple[tuple[str, int], ...]


def why(hit: Hit, query: Query, ranks: Mapping[tuple[str, PointId], Ranks]) -> Why:
    """The numbers that made this hit's place, as the ranking used them."""
    limit = bound(query.terms)
    meaning = None if hit.dense is None else min(max(hit.dense, 0.0), 1.0)
    words = None
    if hit.sparse is not None and limit > 0:
        words = min(max(hit.sparse / limit, 0.0), 1.0)
    alpha = query.alpha
    if meaning is None or words is None:
        alpha = 0.0 if meaning is None else 1.0
    legs = LEGS if hit.collection in query.tags else LEGS[:2]
    return Why(
        meaning,
        words,
        alpha,
        hit.rrf,
        hit.score,
        hit.factors,
        hit.reranked,
        ranks=ranks.get((hit.collection, hit.id), ()),
        weights=tuple(zip(legs, query.fusion(hit.collection) or (), strict=False)),
        gains=hit.gains,
        tags=hit.tags,
    )


def ranks_of(found: Iterable[Scored]) -> dict[tuple[str, PointId], Ranks]:
    """Each candidate's place, from 1, on each leg of its collection; equal scores share one.

    A candidate without that vector, or without any word of the query, has none.
    """
    ranks: dict[tuple[str, PointId], Ranks] = {}
    for part in found:
        for leg, scores in (("meaning", part.dense), ("words", part.sparse)):
            for point, place in _places(scores).items():
                key = part.target.collection, point
                ranks[key] = (*ranks.get(key, ()), (leg, place))
    return ranks


def _places(exact: Mapping[PointId, float]) -> dict[PointId, int]:
    scores = {point: round(score, DIGITS) for point, score in exact.items()}
    ordered = sorted(scores.values(), reverse=True)
    first = {score: place for place, score in reversed(list(enumerate(ordered, 1)))}
    return {point: first[score] for point, score in scores.items() if score > 0}
