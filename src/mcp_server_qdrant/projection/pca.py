"""Principal components: many vectors on a few axes. Pure numpy, no engine, no settings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

OVERSAMPLING = 13
ITERATIONS = 12

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False, slots=True)
class Basis:
    """The axes of a map: `mean` of shape (d,), `components` (axes, d) of unit length, float32.

    `explained` is each axis's share of the variance, in [0, 1], falling; 0 for an axis along which
    nothing differs, whose component is zero.
    """

    mean: Vectors
    components: Vectors
    explained: tuple[float, ...]

    def project(self, vectors: ArrayLike) -> Vectors:
        """(n, d) vectors, or one of (d,), on the axes: (n, axes), or (axes,); float32."""
        moved = np.asarray(vectors, np.float32) - self.mean
        return np.asarray(moved @ self.components.T, np.float32)


def unit(vectors: ArrayLike) -> Vectors:
    """(n, d) vectors made one long; a vector that is not finite becomes zero, and zero stays so."""
    held = np.array(vectors, np.float64)
    held[~np.isfinite(held).all(axis=1)] = 0.0
    length = np.linalg.norm(held, axis=1, keepdims=True)
    return (held / np.where(length > 0, length, 1.0)).astype(np.float32)


def principal(vectors: ArrayLike, axes: int) -> Basis:
    """The axes along which (n, d) finite vectors differ most, n and d at least 1.

    The right singular vectors of the centred matrix, by subspace iteration from a fixed start
    (Halko, Martinsson, Tropp 2011, algorithm 4.4). Signs: the largest entry of each component is
    positive. Fewer dimensions than axes leave the last components zero.
    """
    held = np.asarray(vectors, np.float32)
    mean: Vectors = held.mean(axis=0, dtype=np.float64).astype(np.float32)
    centred = held - mean
    total = float(np.square(centred, dtype=np.float64).sum())
    components = np.zeros((axes, held.shape[1]), np.float32)
    explained = np.zeros(axes)
    if total > _noise(held):
        found, variances = _iterated(centred, axes)
        kept = variances > total * 1e-9
        found[~kept] = 0
        components[: len(found)] = found * _signs(found)
        explained[: len(found)] = np.where(kept, variances / total, 0.0)
    return Basis(mean, components, tuple(map(float, np.clip(explained, 0, 1))))


def _noise(held: Vectors) -> float:
    """The variance that rounding alone makes of n equal vectors."""
    total = float(np.square(held, dtype=np.float64).sum())
    return total * float(np.finfo(np.float32).eps) ** 2 * 4


def _iterated(centred: Vectors, axes: int) -> tuple[Vectors, NDArray[np.float64]]:
    """The first components and the variance (not divided by n) along each."""
    size = centred.shape[1]
    chance = np.random.default_rng(0).standard_normal((size, min(axes + OVERSAMPLING, size)))
    span = np.linalg.qr(chance.astype(np.float32)).Q
    for _ in range(ITERATIONS):
        span = np.linalg.qr(centred.T @ (centred @ span)).Q
    seen = (centred @ span).astype(np.float64)
    values, vectors = np.linalg.eigh(seen.T @ seen)
    return (span @ vectors[:, ::-1][:, :axes]).T.astype(np.float32), values[::-1][:axes]


def _signs(components: Vectors) -> Vectors:
    largest = np.abs(components).argmax(axis=1)
    signs: Vectors = np.where(components[np.arange(len(components)), largest] < 0, -1, 1)
    return signs[:, None].astype(np.float32)


def shares(sizes: Sequence[int], most: int) -> list[int]:
    """The number of points to draw of each collection: as even as can be, `most` in all.

    A collection smaller than its share is taken whole; the others have what it leaves. Each that
    holds points gives one at least, also where that makes more than `most`.
    """
    drawn = [0] * len(sizes)
    left = most
    ranked = sorted((size, place) for place, size in enumerate(sizes) if size > 0)
    for done, (size, place) in enumerate(ranked):
        drawn[place] = min(size, max(left // (len(ranked) - done), 1))
        left -= drawn[place]
    return drawn
