"""What a hit gains when words of the query stand in its tags or its title.

    relevance' = min(relevance + (1 - a) * share, a * max(cos, 0) + (1 - a))

with a = 0 where no vectors were compared. The share is the part of the query, by idf, that these
words are: they count as what they could earn in the text at most. The ceiling is the relevance of a
text that holds every word of the query, so relevance stays within [0, 1], and it never falls.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from mcp_server_qdrant.datatypes import Hit, Terms

Tokens = Callable[[str], Collection[int]]


def lifted(hit: Hit, step: str, share: float, alpha: float) -> Hit:
    """The hit with relevance and score raised, the factor recorded under `step`.

    One that is not relevant at all stays so.
    """
    words = 1.0 if hit.dense is None else 1 - alpha
    ceiling = (1 - words) * min(max(hit.dense or 0.0, 0.0), 1.0) + words
    relevance = min(hit.relevance + words * share, ceiling)
    if relevance <= hit.relevance or hit.relevance <= 0:
        return hit
    return replace(hit.rescored(step, relevance / hit.relevance), relevance=relevance)


def weights(terms: Terms, tokens: Tokens) -> Mapping[int, float]:
    """What each term of the query counts: its idf, or the same where no collection tells idf."""
    return terms.idf or dict.fromkeys(tokens(terms.query), 1.0)


def share(found: Collection[int], weights: Mapping[int, float]) -> float:
    """The part of the query, by weight, that these terms are; in [0, 1]."""
    total = sum(weights.values())
    return sum(value for term, value in weights.items() if term in found) / total if total else 0.0
