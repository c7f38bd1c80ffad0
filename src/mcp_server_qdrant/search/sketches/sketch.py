"""A collection in a few kilobytes: the centres of its vectors, and its commonest words."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mcp_server_qdrant.search.words.vocabulary import tally

CENTRES = 8
EACH = 4  # vectors behind a centre at least
TURNS = 6
WORDS = 40
DIMENSIONS = 100  # in which the vectors of a group really spread, of a model's several hundred
TOLD = 6  # words that say what a collection is about

Vectors = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """The vectors of a collection in `centres`, each the mean of a group of unit vectors.

    `shares` are the groups' shares of the collection, which had so many `points`; `words` its
    commonest ones with the number of sampled texts that hold them. The length of a mean tells how
    far its group spreads: `spreads` are the deviations of its cosines with any query.
    """

    model: str
    points: int
    centres: npt.NDArray[np.float16]
    shares: npt.NDArray[np.float32]
    words: Mapping[str, int]
    spreads: npt.NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        squares = np.sum(self.centres.astype(np.float32) ** 2, axis=1)
        spreads = np.sqrt(np.maximum(1 - squares, 0) / DIMENSIONS)
        object.__setattr__(self, "spreads", spreads)

    @classmethod
    def of(
        cls,
        model: str,
        points: int,
        vectors: Vectors,
        texts: Sequence[str],
        stems: Callable[[str], Collection[int]],
    ) -> "Sketch":
        """The sketch of a sample. A word without a stem is a stop word."""
        counts: Counter[str] = Counter()
        tally(counts, texts)
        telling = ((word, count) for word, count in counts.most_common(8 * WORDS) if stems(word))
        centres, shares = _grouped(vectors)
        words = dict(pair for pair, _ in zip(telling, range(WORDS), strict=False))
        return cls(model, points, centres, shares, words)


def _grouped(vectors: Vectors) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.float32]]:
    """The means of at most eight groups by spherical k-means (Dhillon and Modha 2001)."""
    units = _unit(vectors[np.isfinite(vectors).all(axis=1)]).astype(np.float32)
    if not len(units):
        return units.astype(np.float16), np.zeros(0, np.float32)
    count = max(min(CENTRES, len(units) // EACH), 1)
    centres = units[np.linspace(0, len(units) - 1, count).astype(int)]
    sizes = np.zeros(count, np.float32)
    for _ in range(TURNS):
        nearest = np.argmax(units @ _unit(centres).T, axis=1)
        sizes = np.bincount(nearest, minlength=count).astype(np.float32)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, units)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    kept = sizes > 0
    shares = (sizes[kept] / len(units)).astype(np.float32)
    return centres[kept].astype(np.float16), shares


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = rows / np.where(lengths > 0, lengths, 1)
    return unit


def about(sketch: Sketch, all_words: Mapping[str, int], collections: int) -> str:
    """The words that tell this collection from the others, by class-based tf-idf.

    weight(w) = tf(w) * ln(1 + C / f(w)), where f(w) is how often all `collections` together have
    the word and C how many words a collection has on average (Grootendorst, BERTopic, 2022).
    """
    average = sum(all_words.values()) / max(collections, 1)
    weights = {w: n * math.log(1 + average / all_words[w]) for w, n in sketch.words.items()}
    best = sorted(weights, key=lambda word: (-weights[word], word))
    return ", ".join(best[:TOLD])
