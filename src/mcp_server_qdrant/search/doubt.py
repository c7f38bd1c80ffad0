"""Whether the best of a search is a match at all, and what of the query no text has.

Weak is what is less relevant than a text of these cosine and BM25 values would be:

    relevance < a * 0.36 + (1 - a) * 0.16

with a = 1 where words were not searched, 0 where vectors were not. Measured: docs/ranking.md. Weak
is also a search for an identifier, a number or a quoted phrase that no text found contains, where
it is half of the query or more: texts on others of its kind are no match.
"""

from collections.abc import Iterable

from mcp_server_qdrant.core.datatypes import Hit
from mcp_server_qdrant.core.notation import every
from mcp_server_qdrant.search.query import Query
from mcp_server_qdrant.search.relevance import share, term_weights
from mcp_server_qdrant.search.texts import Texts

MEANING, WORDS = 0.36, 0.16
TRUSTED = 0.5  # by a reranker
HALF = 0.5  # of the query
WEAK = "Weak matches only"  # how the sentence on them begins


def weak(best: Hit, alpha: float) -> bool:
    """True where no hit can be trusted to match if `best` is the most relevant."""
    dense = 1.0 if best.sparse is None else 0.0 if best.dense is None else alpha
    return best.relevance < dense * MEANING + (1 - dense) * WORDS


def absent(hits: Iterable[Hit], query: Query, texts: Texts) -> list[str]:
    """The identifiers, numbers and phrases of the query that none of the texts contains."""
    if not query.exact:
        return []
    parts = (part for hit in hits for part in (hit, *hit.parts))
    held = {one for part in parts for one in query.exact.held(texts.written(part))}
    return [one for one in (*query.exact.pieces, *query.exact.phrases) if one not in held]


def lost(absent: Iterable[str], query: Query, texts: Texts) -> bool:
    """True where what no text contains is half of the query or more."""
    terms = {term for one in absent for term in texts.tokens(one)}
    if not terms:
        return False
    weights = term_weights(query.terms, texts.tokens)
    unseen = {term: weights.get(term, max(weights.values(), default=1.0)) for term in terms}
    return share(terms, {**weights, **unseen}) >= HALF


def doubt(best: Hit | None, alpha: float, *, missed: bool = False) -> list[str]:
    """The sentence on a page on which nothing fits; a reranker's trust in its best dispels it.

    `missed`: no text has what is asked for.
    """
    if best is None or (best.reranked or 0.0) >= TRUSTED:
        return []
    if not missed and not weak(best, alpha):
        return []
    return [f"{WEAK}: the best has relevance {best.relevance:.2f}."]


def unfound(absent: Iterable[str]) -> list[str]:
    """The sentence on what no text contains."""
    names = every(absent)
    return [f"No text found contains {names}."] if names else []
