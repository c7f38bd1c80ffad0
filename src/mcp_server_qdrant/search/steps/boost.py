"""Collections that the operator prefers rank higher.

    factor = base ** (len(order) - position)      position counts from 0

for collections in the order; 1 for all others. Source: DESIGN 6.
"""

from collections.abc import Iterable, Sequence

from mcp_server_qdrant.core.datatypes import Hit, Priority, by_score

BASES: dict[Priority, float] = {"natural": 1.0, "soft": 1.1, "medium": 1.25, "hard": 1.5}


def boost(hits: Iterable[Hit], order: Sequence[str], level: Priority) -> list[Hit]:
    """The hits with their collection's factor, best first. `natural` changes nothing."""
    base = BASES[level]
    factors = {name: base ** (len(order) - place) for place, name in enumerate(order)}
    if base == 1.0 or not factors:
        return list(hits)
    return by_score(
        hit.rescored("priority", factors[hit.collection]) if hit.collection in factors else hit
        for hit in hits
    )
