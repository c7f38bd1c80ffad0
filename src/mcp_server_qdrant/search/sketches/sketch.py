"""A collection in a few kilobytes: the centres of its vectors, its terms, its commonest words."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.search.words.postings import NOWHERE, Postings
from mcp_server_qdrant.search.words.vocabulary import tally

CENTRES = 32  # vectors up to which each is a centre of its own, and centres at most
TURNS = 6
STEPS = 127  # of a centre's largest component
AT_ONCE = 2_048  # centres whose cosines are computed at once, in a buffer that stays in the cache
WORDS = 40
DIMENSIONS = 100  # in which the vectors of a group really spread, of a model's several hundred
TOLD = 6  # words that say what a collection is about

Vectors = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """The vectors of a collection in `centres`, each the mean of a group of unit vectors.

    A centre is `scales` times eight-bit whole numbers. `shares` are the groups' shares of the
    collection, which had so many `points`; `words` its commonest ones with the number of sampled
    texts that hold them. `groups` tells the centre of each of its sampled points; their terms are
    in `postings`, where all of a small collection was read. The length of a mean tells how far its
    group spreads: `spreads` are the deviations of its cosines with any query.
    """

    model: str
    points: int
    centres: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float32]
    shares: npt.NDArray[np.float32]
    words: Mapping[str, int]
    groups: npt.NDArray[np.uint8]
    postings: Postings | None = None
    spreads: npt.NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        squares = np.sum(self.centres.astype(np.float32) ** 2, axis=1) * self.scales**2
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
        postings: Postings | None = None,
    ) -> "Sketch":
        """The sketch of a sample. A word without a stem is a stop word."""
        counts: Counter[str] = Counter()
        tally(counts, texts)
        telling = ((word, count) for word, count in counts.most_common(8 * WORDS) if stems(word))
        means, shares, groups = _grouped(vectors)
        largest = np.max(np.abs(means), axis=1, initial=0)
        scales = (np.where(largest > 0, largest, 1) / STEPS).astype(np.float32)
        centres = np.rint(means / scales[:, None]).astype(np.int8)
        words = dict(pair for pair, _ in zip(telling, range(WORDS), strict=False))
        return cls(model, points, centres, scales, shares, words, groups, postings)

    @property
    def exact(self) -> bool:
        """True where every text is known by its own vector and terms."""
        return self.postings is not None and len(self.centres) == len(self.groups)


def counted(targets: Sequence[Target], sketches: Mapping[str, Sketch]) -> dict[str, Postings]:
    """The postings of the targets whose terms are all known."""
    return {
        target.collection: held
        for target in targets
        if (sketch := sketches.get(target.collection))
        and (held := sketch.postings)
        and held.documents == target.documents
    }


def cosines(sketches: Sequence[Sketch], vector: Vectors) -> npt.NDArray[np.float32]:
    """The cosines of a query with the centres of all sketches, one after the other.

    All have as many dimensions as the vector.
    """
    centres = np.concatenate([sketch.centres for sketch in sketches])
    found = np.empty(len(centres), np.float32)
    buffer = np.empty((AT_ONCE, len(vector)), np.float32)
    unit = _unit(np.asarray(vector, np.float32)[None, :])[0]
    for start in range(0, len(centres), AT_ONCE):
        part = centres[start : start + AT_ONCE]
        np.copyto(buffer[: len(part)], part)
        # Not by BLAS, whose threads keep processors busy that others need.
        np.vecdot(buffer[: len(part)], unit, out=found[start : start + len(part)])
    found *= np.concatenate([sketch.scales for sketch in sketches])
    return found


def _grouped(
    vectors: Vectors,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Few vectors as they are, else the means of groups by spherical k-means; shares; groups.

    (Dhillon and Modha 2001)
    """
    sound = np.isfinite(vectors).all(axis=1)
    units = _unit(vectors[sound]).astype(np.float32)
    count = min(CENTRES, len(units))
    centres, nearest = units[:count], np.arange(count)
    if count < len(units):
        centres = units[np.linspace(0, len(units) - 1, count).astype(int)]
        for _ in range(TURNS):
            nearest = np.argmax(units @ _unit(centres).T, axis=1)
            sizes = np.bincount(nearest, minlength=count)
            sums = np.zeros_like(centres)
            np.add.at(sums, nearest, units)
            centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    used, nearest, sizes = np.unique(nearest, return_inverse=True, return_counts=True)
    groups = np.full(len(vectors), NOWHERE, np.uint8)
    groups[sound] = nearest
    return centres[used], (sizes / max(len(units), 1)).astype(np.float32), groups


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
