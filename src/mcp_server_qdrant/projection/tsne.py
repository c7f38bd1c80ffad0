"""The layout by neighbours: a process of its own, which reads vectors and writes places.

It is gentle (the lowest priority, one core), and its libraries never weigh on the server. t-SNE by
openTSNE, the extra `map`: seeded, begun from the principal components.
"""

import io
import os
import sys

import numpy as np
from numpy.typing import NDArray

from mcp_server_qdrant.projection.pca import Vectors

PERPLEXITY = 30
EARLY, LATE = 125, 350  # iterations
BLOCK = 512
SAMPLED = 10_000  # points that are laid out at most
BESIDE = 5  # neighbours that a further point lies among
INTERPOLATED = 5_000  # points from which on interpolation beats the tree


def main() -> None:
    """(n, d) vectors and (n, 2) places to begin at on stdin, as two .npy; places on stdout."""
    if sys.platform != "win32":
        os.nice(10)
    given = io.BytesIO(sys.stdin.buffer.read())
    vectors, start = np.load(given), np.load(given)
    made = io.BytesIO()  # a pipe has no place in it, which numpy asks for
    np.save(made, laid_out(vectors, start))
    sys.stdout.buffer.write(made.getvalue())


def laid_out(vectors: Vectors, start: Vectors) -> Vectors:
    """The places (n, 2) at which points that are alike are neighbours.

    Of more than `SAMPLED` points a sample is laid out; the others are put among their like.
    """
    if len(vectors) <= SAMPLED:
        return _embedded(vectors, start)
    chosen = np.zeros(len(vectors), np.bool_)
    chosen[np.random.default_rng(0).choice(len(vectors), SAMPLED, replace=False)] = True
    places = np.empty((len(vectors), 2), np.float32)
    places[chosen] = _embedded(vectors[chosen], start[chosen])
    places[~chosen] = among(vectors[~chosen], vectors[chosen], places[chosen])
    return places


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
