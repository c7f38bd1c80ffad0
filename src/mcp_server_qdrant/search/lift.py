"""The gain of a hit that has words of the query in its tags or its title.

    relevance' = bent(relevance + (1 - a) * share)

with a = 0 where no vectors were compared. The share is the part of the query, by idf, that these
words are: what they could earn in the text at most. Above a knee at 0.8 (or at the relevance, where
that is more) the line bends, k + (1 - k) * (1 - exp(-(x - k) / (1 - k))): it stays below 1, never
below the relevance, and keeps the order.
"""

import math
from collections.abc import Callable, Collection, Mapping

from mcp_server_qdrant.core.datatypes import Hit, Terms

KNEE = 0.8

Tokens = Callable[[str], Collection[int]]


def lifted(hit: Hit, step: str, share: float, alpha: float) -> Hit:
    """The hit with relevance and score raised, the gain recorded under `step`."""
    words = 1.0 if hit.dense is None else 1 - alpha
    relevance = bent(hit.relevance, words * share)
    return hit.lifted(step, relevance) if relevance > hit.relevance else hit


def bent(relevance: float, gain: float) -> float:
    """The relevance with the gain, in [0, 1]; increasing in both."""
    knee = max(KNEE, relevance)
    over, room = relevance + gain - knee, 1 - knee
    if over <= 0 or room <= 0:
        return min(relevance + gain, 1.0)
    return knee + room * (1 - math.exp(-over / room))


def term_weights(terms: Terms, tokens: Tokens) -> Mapping[int, float]:
    """The weight of each term of the query: its idf, or 1 where no collection has an idf."""
    return terms.idf or dict.fromkeys(tokens(terms.query), 1.0)


def share(
    found: Collection[int], weights: Mapping[int, float], ceiling: float | None = None
) -> float:
    """The part of the query, by weight, that these terms are; in [0, 1].

    A text need hold only one of several near spellings: then the whole is the `ceiling`, not the
    sum of the weights.
    """
    total = sum(weights.values()) if ceiling is None else ceiling
    held = sum(value for term, value in weights.items() if term in found)
    return min(held / total, 1.0) if total else 0.0
