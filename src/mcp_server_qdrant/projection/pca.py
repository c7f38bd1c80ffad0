"""Principal components: many vectors on a few axes. Pure numpy, no engine, no settings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

AXES = 3
REDUCED = 50  # axes on which neighbours and regions are looked for
BLOCK = 4_096  # vectors that are doubled in precision at a time
EXACT = 1_024  # up to this rank the eigenvectors are computed in full, in a tenth of a second
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

    def first(self, axes: int) -> "Basis":
        """The first axes alone."""
        return Basis(self.mean, self.components[:axes], self.explained[:axes])


def unit(vectors: ArrayLike) -> tuple[Vectors, NDArray[np.bool_]]:
    """(n, d) vectors made one long, and which of them (n,) are finite.

    What is not finite becomes zero, and zero stays so.
    """
    given = np.asarray(vectors)
    made, finite = np.empty(given.shape, np.float32), np.empty(len(given), np.bool_)
    for start in range(0, len(given), BLOCK):
        part = slice(start, start + BLOCK)
        held = given[part].astype(np.float64)
        finite[part] = np.isfinite(held).all(axis=1)
        held[~finite[part]] = 0.0
        largest = np.abs(held).max(axis=1, initial=0.0, keepdims=True)
        held /= np.where(largest > 0, largest, 1.0)  # so that no square overflows
        length = np.linalg.norm(held, axis=1, keepdims=True)
        made[part] = held / np.where(length > 0, length, 1.0)
    return made, finite


def principal(vectors: ArrayLike, axes: int = AXES) -> Basis:
    """The axes along which (n, d) finite vectors differ most, n and d at least 1.

    Eigenvectors of the covariance, or of the Gram matrix where that is smaller: the right singular
    vectors of the centred matrix. Above a rank of 1,024 by subspace iteration from a fixed start
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
        found, variances = _eigen(centred, axes)
        kept = variances > total * 1e-9
        found[~kept] = 0
        components[: len(found)] = found * _signs(found)
        explained[: len(found)] = np.where(kept, variances / total, 0.0)
    return Basis(mean, components, tuple(map(float, np.clip(explained, 0, 1))))


def _noise(held: Vectors) -> float:
    """The variance that rounding alone makes of n equal vectors."""
    total = float(np.square(held, dtype=np.float64).sum())
    return total * float(np.finfo(np.float32).eps) ** 2 * 4


def _eigen(centred: Vectors, axes: int) -> tuple[Vectors, NDArray[np.float64]]:
    """The first components and the variance (not divided by n) along each."""
    points, size = centred.shape
    if min(points, size) > EXACT:
        return _iterated(centred, axes)
    if size <= points:
        values, vectors = np.linalg.eigh((centred.T @ centred).astype(np.float64))
        best = vectors[:, ::-1][:, :axes].T
    else:
        values, vectors = np.linalg.eigh((centred @ centred.T).astype(np.float64))
        best = vectors[:, ::-1][:, :axes].T @ centred
    return _unit_rows(best), values[::-1][:axes]


def _iterated(centred: Vectors, axes: int) -> tuple[Vectors, NDArray[np.float64]]:
    start = np.random.default_rng(0).standard_normal((centred.shape[1], axes + OVERSAMPLING))
    span = np.linalg.qr(start.astype(np.float32)).Q
    for _ in range(ITERATIONS):
        span = np.linalg.qr(centred.T @ (centred @ span)).Q
    seen = (centred @ span).astype(np.float64)
    values, vectors = np.linalg.eigh(seen.T @ seen)
    best = vectors[:, ::-1][:, :axes].T @ span.T
    return _unit_rows(best), values[::-1][:axes]


def _unit_rows(rows: NDArray[np.floating]) -> Vectors:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(length > 0, length, 1.0)).astype(np.float32)


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
