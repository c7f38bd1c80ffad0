"""The layout by neighbours and its regions: a process of its own, from vectors and texts.

It is gentle (the lowest priority, one core), and its libraries never weigh on the server. t-SNE by
openTSNE, the extra `map`: seeded, begun from the principal components. Regions are HDBSCAN's
clusters of what is seen.
"""

import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcp_server_qdrant.projection.names import called, names
from mcp_server_qdrant.projection.pca import Vectors

PERPLEXITY = 30
EARLY, LATE = 125, 350  # iterations
BLOCK = 512
SAMPLED = 10_000  # points that are laid out at most
BESIDE = 5  # neighbours that a further point lies among
INTERPOLATED = 5_000  # points from which on interpolation beats the tree
FEWEST, LARGEST = 6, 0.125  # points of a region; its share of them all, where it can be split
MUCH = 0.25  # of a cluster's points
DENSE = 5  # neighbours by which density is told
NONE = 255  # the number of no region


def main() -> None:
    """Reads (n, d) vectors, (n, 2) places to begin at, as .npy, and the texts as JSON.

    Writes the places and each point's region, as .npy, and the regions as JSON.
    """
    if sys.platform != "win32":
        os.nice(10)
    given = io.BytesIO(sys.stdin.buffer.read())
    vectors, start = np.load(given), np.load(given)
    made = io.BytesIO()  # a pipe has no place in it, which numpy asks for
    places = laid_out(vectors, start)
    region_of, found = regions(places, json.load(given))
    np.save(made, places)
    np.save(made, region_of)
    made.write(json.dumps(found).encode())
    sys.stdout.buffer.write(made.getvalue())


def laid_out(vectors: Vectors, start: Vectors) -> Vectors:
    """The places (n, 2) at which points that are alike are neighbours.

    Of more than `SAMPLED` points a sample is laid out; the others are put among their like.
    """
    if len(vectors) <= SAMPLED:
        return _embedded(vectors, start)
    chosen = _sample(len(vectors))
    places = np.empty((len(vectors), 2), np.float32)
    places[chosen] = _embedded(vectors[chosen], start[chosen])
    places[~chosen] = among(vectors[~chosen], vectors[chosen], places[chosen])
    return places


def regions(places: Vectors, texts: Sequence[str]) -> tuple[NDArray[np.uint8], list[Any]]:
    """Each point's region, or `NONE`, and the regions, the largest first.

    A large cluster is its parts, where phrases tell enough of it apart. One that no phrase tells
    from the others is no region.
    """
    whole, labels = _clusters(places, None), _clusters(places, LARGEST)
    told = np.isin(labels, [one for one, words in _named(labels, texts) if words])
    for one in range(whole.max() + 1):
        inside = whole == one
        if told[inside].mean() < MUCH:
            labels[inside] = labels.max() + 1
    region_of, found = np.full(len(places), NONE, np.uint8), list[Any]()
    for one, words in _named(labels, texts):
        if not words:
            continue
        members = np.flatnonzero(labels == one)
        region_of[members] = len(found)
        far = np.abs(places[members] - np.median(places[members], axis=0)).sum(axis=1)
        point = int(members[far.argmin()])
        found.append({"name": called(words), "words": words, "size": len(members), "point": point})
    return region_of, found


def _named(labels: NDArray[np.int64], texts: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The clusters by size, each with the phrases that tell it from all other points."""
    numbers = [one for one, _ in Counter(labels[labels >= 0].tolist()).most_common()]
    members = [np.flatnonzero(labels == one).tolist() for one in (*numbers, -1)]
    groups = [[texts[at] for at in inside] for inside in members]
    return zip(numbers, names(groups), strict=False)


def _clusters(places: Vectors, largest: float | None) -> NDArray[np.int64]:
    """The number of each point's cluster, -1 for none; of many points a sample is clustered.

    `largest` is the share of the points that a cluster may have.
    """
    from sklearn.cluster import HDBSCAN

    chosen = _sample(len(places))
    count = int(chosen.sum())
    found = HDBSCAN(
        min_cluster_size=max(FEWEST, int(count**0.5 / 2)),
        max_cluster_size=max(2 * FEWEST, int(count * largest)) if largest else None,
        min_samples=DENSE,
        copy=True,
    ).fit_predict(places[chosen])
    labels = np.empty(len(places), np.int64)
    labels[chosen] = found
    if count < len(places):
        near, _ = nearest(places[~chosen], places[chosen], 1)
        labels[~chosen] = found[near[:, 0]]
    return labels


def _sample(count: int) -> NDArray[np.bool_]:
    """Which of the points are laid out and clustered."""
    chosen = np.zeros(count, np.bool_)
    chosen[np.random.default_rng(0).choice(count, min(count, SAMPLED), replace=False)] = True
    return chosen


def among(vectors: Vectors, others: Vectors, places: Vectors) -> Vectors:
    """The middle of the places of the others that are nearest."""
    near, _ = nearest(vectors, others, min(BESIDE, len(others)))
    return np.asarray(np.median(places[near], axis=1), np.float32)


def _embedded(vectors: Vectors, start: Vectors) -> Vectors:
    from openTSNE import TSNEEmbedding
    from openTSNE.affinity import PerplexityBasedNN
    from openTSNE.nearest_neighbors import PrecomputedNeighbors

    count = len(vectors)
    perplexity = min(PERPLEXITY, (count - 1) // 3)
    others, distances = nearest(vectors, vectors, 3 * perplexity + 1)
    # The nearest one is the point itself, or its double.
    known = PrecomputedNeighbors(others[:, 1:], distances[:, 1:])
    alike = PerplexityBasedNN(perplexity=perplexity, knn_index=known, n_jobs=1)
    begun = start / (float(start[:, 0].std()) or 1.0) * 1e-4
    made = TSNEEmbedding(
        begun.astype(np.float64),
        alike,
        negative_gradient_method="fft" if count >= INTERPOLATED else "bh",
        n_jobs=1,
        random_state=0,
    )
    made = made.optimize(EARLY, exaggeration=12, momentum=0.5)
    made = made.optimize(LATE, momentum=0.8)
    return np.asarray(made, np.float32)


def nearest(
    of: Vectors, among: Vectors, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(m, count) indices of the nearest points, the nearest first, and their distances."""
    found = np.empty((len(of), count), np.int64)
    far = np.empty((len(of), count))
    squares = np.square(among).sum(axis=1)
    for start in range(0, len(of), BLOCK):
        block = of[start : start + BLOCK]
        apart = squares - 2 * block @ among.T
        near = np.argpartition(apart, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(apart, near, 1), axis=1, kind="stable")
        near = np.take_along_axis(near, order, 1)
        found[start : start + BLOCK] = near
        squared = np.take_along_axis(apart, near, 1) + np.square(block).sum(axis=1)[:, None]
        far[start : start + BLOCK] = np.sqrt(np.maximum(squared, 0))
    return found, far


if __name__ == "__main__":
    main()
