"""What a hit gains when words of the query stand in its tags or its title.

    relevance' = min(relevance + (1 - a) * share, 0.9 + 0.1 * relevance)

with a = 0 where no vectors were compared. The share is the part of the query, by idf, that these
words are: what they could earn in the text at most. The second term keeps relevance within [0, 1]
and hits that have gained much in their order; it is never below the relevance.
"""

from collections.abc import Callable, Collection, Mapping

from mcp_server_qdrant.datatypes import Hit, Terms

CEILING = 0.9

Tokens = Callable[[str], Collection[int]]


def lifted(hit: Hit, step: str, share: float, alpha: float) -> Hit:
    """The hit with relevance and score raised, the gain recorded under `step`."""
    words = 1.0 if hit.dense is None else 1 - alpha
    relevance = min(hit.relevance + words * share, CEILING + (1 - CEILING) * hit.relevance)
    return hit.lifted(step, relevance) if relevance > hit.relevance else hit


def weights(terms: Terms, tokens: Tokens) -> Mapping[int, float]:
    """What each term of the query counts: its idf, or the same where no collection tells idf."""
    return terms.idf or dict.fromkeys(tokens(terms.query), 1.0)


def share(found: Collection[int], weights: Mapping[int, float]) -> float:
    """The part of the query, by weight, that these terms are; in [0, 1]."""
    total = sum(weights.values())
    return sum(value for term, value in weights.items() if term in found) / total if total else 0.0
