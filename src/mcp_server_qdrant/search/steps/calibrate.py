"""Leg scores of many collections -> hits whose relevance can be compared.

    relevance = a * max(cos, 0) + (1 - a) * bm25 / bound,   bound = (k1 + 1) * sum_t idf(t)

Merging by RRF score would be a round-robin: every collection's first hit scores the same, however
bad. Both terms here are absolute: cos by nature, bm25 because the bound is the largest score that
any document could reach (k1 + 1 is the limit of BM25's term frequency part) and because idf is
that of all searched collections together. Source: DESIGN 3.3, measured there.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from mcp_server_qdrant.core.datatypes import K1, RRF_K, Found, Hit, PointId, Terms, by_score

DIGITS = 5  # of a relevance: the legs are float32


def bound(terms: Terms) -> float:
    """The largest BM25 score that any document could reach for these terms."""
    return (K1 + 1) * (sum(terms.idf.values()) if terms.ceiling is None else terms.ceiling)


def relevance(dense: float | None, sparse: float | None, limit: float, alpha: float) -> float:
    """Relevance in [0, 1] of one point; None stands for a leg that was not searched.

    `dense` is a cosine, `sparse` a BM25 score under the global idf, `limit` the bound, `alpha`
    the dense leg's share. The share of a leg that was not searched goes to the other.
    """
    meaning = 0.0 if dense is None else min(max(dense, 0.0), 1.0)
    words = 0.0 if sparse is None or limit <= 0 else min(max(sparse / limit, 0.0), 1.0)
    if dense is None:
        return words
    if sparse is None or limit <= 0:
        return meaning
    return alpha * meaning + (1 - alpha) * words


def calibrate(found: Sequence[Found], terms: Terms, alpha: float) -> list[Hit]:
    """All candidates as one ranking, best first; ties by collection and id."""
    limit = bound(terms)
    return by_score(hit for part in found for hit in _hits(part, limit, alpha))


def _hits(found: Found, limit: float, alpha: float) -> Iterator[Hit]:
    collection = found.target.collection
    for point, rrf, payload in found.candidates:
        dense = found.dense.get(point, 0.0) if found.dense_searched else None
        sparse = found.sparse.get(point, 0.0) if found.sparse_searched else None
        # Engines differ in the last digits from call to call: equal texts would change places.
        value = round(relevance(dense, sparse, limit, alpha), DIGITS)
        yield Hit(collection, point, value, value, rrf, dense, sparse, payload)


def unseen(found: Found, terms: Terms, alpha: float, weights: Sequence[float] | None) -> Hit:
    """The best that a point could be which is not among the candidates.

    These are the best by RRF, where rank r on a leg of weight w counts 1 / (r / w + k - 1). What is
    not among them has no more than the lowest of them on any one leg, so its rank is at least
    w * (1 / lowest - k + 1), and all above it on that leg are candidates. Source: the threshold of
    Fagin, Lotem and Naor, "Optimal aggregation algorithms for middleware", 2003.
    """
    lowest = min(candidate.rrf for candidate in found.candidates)
    dense_rank, sparse_rank = (w * (1 / lowest - RRF_K + 1) for w in (weights or (1.0, 1.0))[:2])
    dense = _next(found.dense, dense_rank) if found.dense_searched else None
    sparse = _next(found.sparse, sparse_rank) if found.sparse_searched else None
    value = relevance(dense, sparse, bound(terms), alpha)
    return Hit(found.target.collection, "", value, value, lowest, dense, sparse)


def _next(scores: Mapping[PointId, float], rank: float) -> float:
    """The most that a point of this rank or a later one can score; 0 where none is left."""
    above = math.ceil(rank - 1e-6) - 1
    if above < 1:
        return math.inf
    return sorted(scores.values(), reverse=True)[above - 1] if above <= len(scores) else 0.0
