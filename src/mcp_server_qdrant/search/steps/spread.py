"""Unlike passages first, where that is asked for: maximal marginal relevance.

The next hit is always

    argmax (1 - d) * score / best score - d * max likeness to a hit chosen before

with diversity d and the likeness of two passages the share of words that they have in common
(Jaccard). Source: Carbonell and Goldstein, "The use of MMR, diversity-based reranking for
reordering documents and producing summaries", SIGIR 1998; lambda there is 1 - d.
"""

import re
from collections.abc import Callable, Sequence

from mcp_server_qdrant.core.datatypes import Document, Hit

POOL = 50
TEXT = 2_000
WORD = re.compile(r"\w+")


def spread(hits: Sequence[Hit], diversity: float, document: Callable[[Hit], Document]) -> list[Hit]:
    """The hits by maximal marginal relevance; `diversity` 0 gives them back as they are.

    Scores stay. At most the first POOL hits are spread; where a reranker scored some of the hits,
    only these: the scores of the others are on another scale.
    """
    comparable = sum(hit.reranked is not None for hit in hits) or len(hits)
    pool = list(hits[: min(comparable, POOL)])
    if diversity <= 0 or len(pool) < 2 or pool[0].score <= 0:
        return list(hits)
    best = max(hit.score for hit in pool)
    texts = (document(hit).text[:TEXT] for hit in pool)
    sets = [frozenset(WORD.findall(text.lower())) for text in texts]
    likeness = [0.0] * len(pool)
    left, order = list(range(len(pool))), []
    while left:
        first = max(left, key=lambda n: (_marginal(pool[n], best, likeness[n], diversity), -n))
        left.remove(first)
        order.append(first)
        for n in left:
            likeness[n] = max(likeness[n], jaccard(sets[n], sets[first]))
    return [*(pool[n] for n in order), *hits[len(pool) :]]


def _marginal(hit: Hit, best: float, likeness: float, diversity: float) -> float:
    return (1 - diversity) * hit.score / best - diversity * likeness


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of words that two sets have in common; 0 for two empty ones."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0
