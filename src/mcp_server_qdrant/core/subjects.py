"""Whether two short texts are about the same subject: by the cosine of their vectors and words.

Measured with all-MiniLM-L6-v2 on pairs of statements: docs/ranking.md.
"""

from collections.abc import Collection, Iterable

ALIKE = 0.6  # the cosine of statements that share a word
BARELY = 0.5  # of those that share half of the words of the shorter one
# With some models all texts have cosines of 0.8: that of the least of many is none.
MANY, CROWDED = 10, 0.5


def unrelated(cosines: Iterable[float]) -> float:
    """The cosine that texts have which are not related, by those of many candidates; 0 of few."""
    known = list(cosines)
    least = min(known, default=0.0) if len(known) >= MANY else 0.0
    return least if least >= CROWDED else 0.0


def beyond(cosine: float, floor: float) -> float:
    """The cosine as if unrelated texts had one of 0."""
    return (cosine - floor) / (1 - floor) if floor < 1 else 0.0


def same_subject(cosine: float, first: Collection[int], second: Collection[int]) -> bool:
    """True for statements of this cosine that have these terms."""
    shared, least = len({*first} & {*second}), min(len({*first}), len({*second}))
    return shared > 0 and (cosine >= ALIKE or (cosine >= BARELY and 2 * shared >= least))
