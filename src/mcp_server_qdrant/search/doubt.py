"""Whether the best of a search is a match at all.

Weak is what is less relevant than a text of these cosine and BM25 values would be:

    relevance < a * 0.36 + (1 - a) * 0.16

with a = 1 where words were not searched, 0 where vectors were not. Measured: docs/ranking.md.
"""

from mcp_server_qdrant.core.datatypes import Hit

MEANING, WORDS = 0.36, 0.16
TRUSTED = 0.5  # by a reranker
WEAK = "Weak matches only"  # how the sentence on them begins


def weak(best: Hit, alpha: float) -> bool:
    """True where no hit can be trusted to match if `best` is the most relevant."""
    share = 1.0 if best.sparse is None else 0.0 if best.dense is None else alpha
    return best.relevance < share * MEANING + (1 - share) * WORDS


def doubt(best: Hit | None, alpha: float) -> list[str]:
    """The sentence on a page on which nothing fits; a reranker's trust in its best dispels it."""
    if best is None or (best.reranked or 0.0) >= TRUSTED or not weak(best, alpha):
        return []
    return [f"{WEAK}: the best has relevance {best.relevance:.2f}."]
