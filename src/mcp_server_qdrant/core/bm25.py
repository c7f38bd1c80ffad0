"""The BM25 of this server: of its vectors, and the same of a text index that an engine ranks by."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

K1 = 1.2  # term frequency saturation, and so the largest score that a term allows
B = 0.75
AVERAGE_LENGTH = 256  # words, in every collection: so the scores of all compare

Probed = Sequence[int] | Mapping[int, str]  # terms; a text index is asked for their words


class Markers(NamedTuple):
    """Terms that no text has: `foreign` of vectors of texts that are not English, and language."""

    foreign: tuple[int, ...]
    languages: Mapping[int, str]


NO_MARKERS = Markers((), {})
ENGLISH = "english"  # the language of texts without markers


def engine_idf(documents: int, frequency: float) -> float:
    """ln((N + 1) / (df + 0.5)), as Qdrant weighs a term."""
    return math.log((documents + 1) / (frequency + 0.5))


def document_frequency(documents: int, idf: float) -> float:
    """The number of the `documents` that contain a term with this idf; 0 where it has none."""
    return max((documents + 1) / math.exp(idf) - 0.5, 0.0) if idf > 0 else 0.0


def of_index(average: float) -> tuple[float, float, float]:
    """The k and b of a text index whose texts have `average` words, and a factor for its scores.

    An engine divides by the average of the collection. With these parameters
    k * (1 - b + b * length / average) = K1 * (1 - B + B * length / AVERAGE_LENGTH).
    """
    growth = K1 * B * average / AVERAGE_LENGTH
    k = K1 * (1 - B) + growth
    return k, growth / k, (K1 + 1) / (k + 1)
