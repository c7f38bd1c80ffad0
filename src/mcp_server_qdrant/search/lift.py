"""What a hit gains when words of the query stand in its tags or its title.

    relevance' = relevance + share * (ceiling - relevance)        0 <= share <= 1

The ceiling is the relevance the hit would have if its text held every word of the query:
a * max(cos, 0) + (1 - a), or 1 where no vectors were compared. So a word in a tag or a title counts
at most as much as it would in the text; relevance stays within [0, 1] and never falls.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from mcp_server_qdrant.datatypes import Hit, Terms

Tokens = Callable[[str], Collection[int]]


def lifted(hit: Hit, step: str, share: float, alpha: float) -> Hit:
    """The hit with relevance and score raised, the factor recorded under `step`.

    One that is not relevant at all stays so.
    """
    ceiling = 1.0
    if hit.dense is not None:
        ceiling = alpha * min(max(hit.dense, 0.0), 1.0) + 1 - alpha
    gain = min(share, 1.0) * (ceiling - hit.relevance)
    if gain <= 0 or hit.relevance <= 0:
        return hit
    relevance = min(hit.relevance + gain, 1.0)
    return replace(hit.rescored(step, relevance / hit.relevance), relevance=relevance)


def weights(terms: Terms, tokens: Tokens) -> Mapping[int, float]:
    """What each term of the query counts: its idf, or the same where no collection tells idf."""
    return terms.idf or dict.fromkeys(tokens(terms.query), 1.0)


def share(found: Collection[int], weights: Mapping[int, float]) -> float:
    """The part of the query, by weight, that these terms are; in [0, 1]."""
    total = sum(weights.values())
    return sum(value for term, value in weights.items() if term in found) / total if total else 0.0
