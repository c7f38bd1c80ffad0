"""Which passages a page shows, and which texts have a line only.

A page has a number of tokens. They go to passages by worth, the best first:

    worth = score / best score - BESIDE * passages of its text before it - TEXT * texts before it

so that a clear first text shows two or three of its parts and an even field one of each. The texts
whose passages have no room keep a line of their own.
"""

from collections.abc import Sequence

from mcp_server_qdrant.core.datatypes import Hit

BESIDE = 0.05  # of another passage of the same text
TEXT = 0.1  # of a text further down


def by_worth(hits: Sequence[Hit], most: int) -> list[tuple[int, int]]:
    """The passages in the order of their worth, as (text, part); part 0 is the text's best.

    Of each text at most `most`, and each only after those before it.
    """
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    worth: dict[tuple[int, int], float] = {}
    for place, hit in enumerate(hits):
        top, value = hit.relevance or 1.0, hit.score / best - TEXT * place
        for number, part in enumerate((hit, *hit.parts)[:most]):
            lower = value * min(part.relevance / top, 1.0) if number else value
            worth[place, number] = lower - BESIDE * number
    return sorted(worth, key=lambda one: (-worth[one], one))
