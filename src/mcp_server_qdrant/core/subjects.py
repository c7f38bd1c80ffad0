"""Tells whether two short texts are about the same subject, by their vectors and their words.

The thresholds were measured with all-MiniLM-L6-v2 on pairs of statements: docs/ranking.md.
"""

from collections.abc import Collection, Iterable

ALIKE = 0.6  # least cosine of texts that share a word
BARELY = 0.5  # least cosine of texts that share half of the shorter one's words
# Some models give unrelated texts a cosine of 0.8. With so many candidates the lowest cosine shows
# it, if it is so high.
MANY, CROWDED = 10, 0.5


def unrelated_cosine(cosines: Iterable[float]) -> float:
    """The cosine that the model gives to unrelated texts; 0 if there are few candidates."""
    known = list(cosines)
    least = min(known, default=0.0) if len(known) >= MANY else 0.0
    return least if least >= CROWDED else 0.0


def above_unrelated(cosine: float, floor: float) -> float:
    """The cosine rescaled so that unrelated texts, with the cosine `floor`, have 0."""
    return (cosine - floor) / (1 - floor) if floor < 1 else 0.0


def same_subject(cosine: float, first: Collection[int], second: Collection[int]) -> bool:
    """True if texts with this cosine and these terms are about the same subject."""
    shared, least = len({*first} & {*second}), min(len({*first}), len({*second}))
    return shared > 0 and (cosine >= ALIKE or (cosine >= BARELY and 2 * shared >= least))
