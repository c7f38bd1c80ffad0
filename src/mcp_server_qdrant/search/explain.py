"""The reasons for a hit's place, for `explain`."""

from collections.abc import Iterable, Mapping
from typing import Any

from mcp_server_qdrant.core.datatypes import Hit, PointId, Scored
from mcp_server_qdrant.search.query import Query
from mcp_server_qdrant.search.relevance import DIGITS, bound, within_one

Ranks = dict[str, int]


def why(hit: Hit, query: Query, ranks: Mapping[tuple[str, PointId], Ranks]) -> dict[str, Any]:
    """The numbers that made this hit's place, as the ranking used them.

    `meaning` and `words` are the legs (None: not searched), `words` as a share of the largest BM25
    score that any document could reach; `alpha` is the share of meaning. `ranks` are its places,
    from 1, among the candidates of its collection; `gains` were added to the relevance, `factors`
    multiply it.
    """
    limit = bound(query.terms)
    meaning = None if hit.dense is None else within_one(hit.dense)
    words = None if hit.sparse is None or limit <= 0 else within_one(hit.sparse / limit)
    alpha = query.alpha
    if meaning is None or words is None:
        alpha = 0.0 if meaning is None else 1.0
    reasons = {
        "meaning": meaning,
        "words": words,
        "alpha": alpha,
        "rrf": hit.rrf,
        "score": hit.score,
        "factors": dict(hit.factors),
        "ranks": ranks.get((hit.collection, hit.id), {}),
        "gains": dict(hit.gains),
        "tags": list(hit.tags),
    }
    return reasons if hit.reranked is None else reasons | {"reranked": hit.reranked}


def ranks_of(found: Iterable[Scored]) -> dict[tuple[str, PointId], Ranks]:
    """Each candidate's place, from 1, on each leg of its collection; equal scores share one.

    A candidate without that vector, or without any word of the query, has none.
    """
    ranks: dict[tuple[str, PointId], Ranks] = {}
    for part in found:
        for leg, scores in (("meaning", part.dense), ("words", part.sparse)):
            for point, place in _places(scores).items():
                ranks.setdefault((part.target.collection, point), {})[leg] = place
    return ranks


def _places(exact: Mapping[PointId, float]) -> dict[PointId, int]:
    scores = {point: round(score, DIGITS) for point, score in exact.items()}
    ordered = sorted(scores.values(), reverse=True)
    return {point: ordered.index(score) + 1 for point, score in scores.items() if score > 0}
