"""The BM25 of this server's vectors."""

import math
from collections.abc import Mapping
from typing import NamedTuple

K1 = 1.2  # term frequency saturation, and so the largest score that a term allows
B = 0.75
AVERAGE_LENGTH = 256  # words, in every collection: so the scores of all compare


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
