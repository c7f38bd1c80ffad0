"""Leg scores of many collections -> hits whose relevance can be compared.

    relevance = a * max(cos, 0) + (1 - a) * bm25 / bound,   bound = (k1 + 1) * sum_t idf(t)

Merging by RRF score would be a round-robin: every collection's first hit scores the same, however
bad. Both terms here are absolute: cos by nature, bm25 because the bound is the largest score that
any document could reach (k1 + 1 is the limit of BM25's term frequency part) and because idf is
that of all searched collections together. Source: DESIGN 3.3, measured there.
"""

from collections.abc import Iterator, Sequence

from mcp_server_qdrant.core.bm25 import K1
from mcp_server_qdrant.core.datatypes import Found, Hit, Terms, by_score

DIGITS = 5  # of a relevance: the legs are float32


def bound(terms: Terms) -> float:
    """The largest BM25 score that any document could reach for these terms."""
    return (K1 + 1) * (sum(terms.idf.values()) if terms.ceiling is None else terms.ceiling)


def relevance(dense: float | None, sparse: float | None, limit: float, alpha: float) -> float:
    """Relevance in [0, 1] of one point; None stands for a leg that was not searched.

    `dense` is a cosine, `sparse` a BM25 score under the global idf, `limit` the bound, `alpha`
    the dense leg's share. The share of a leg that was not searched goes to the other.
    """
    meaning = 0.0 if dense is None else _within(dense)
    words = 0.0 if sparse is None or limit <= 0 else _within(sparse / limit)
    if dense is None:
        return words
    if sparse is None or limit <= 0:
        return meaning
    return alpha * meaning + (1 - alpha) * words


def _within(value: float) -> float:
    """The value in [0, 1], nan as 0; quicker than `min` and `max`, which counts here."""
    return value if 0.0 <= value <= 1.0 else 1.0 if value > 1.0 else 0.0


def calibrate(found: Sequence[Found], terms: Terms, alpha: float) -> list[Hit]:
    """All candidates as one ranking, best first; ties by collection and id."""
    limit = bound(terms)
    return by_score(hit for part in found for hit in _hits(part, limit, alpha))


def _hits(found: Found, limit: float, alpha: float) -> Iterator[Hit]:
    collection = found.target.collection
    cosines = found.dense if found.dense_searched else None
    scores = found.sparse if found.sparse_searched else None
    for point, rrf, payload in found.candidates:
        dense = None if cosines is None else cosines.get(point, 0.0)
        sparse = None if scores is None else scores.get(point, 0.0)
        # Engines differ in the last digits from call to call: equal texts would change places.
        value = round(relevance(dense, sparse, limit, alpha), DIGITS)
        yield Hit(collection, point, value, value, rrf, dense, sparse, payload)
