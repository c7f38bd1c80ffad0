"""Principal components: many vectors on a few axes. Pure numpy, no engine, no settings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

EPSILON = float(np.finfo(np.float32).eps)

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

    The eigenvectors of the covariance. Signs: the largest entry of each component is positive.
    Fewer dimensions than axes leave the last components zero.
    """
    held = np.asarray(vectors, np.float32)
    mean: Vectors = held.mean(axis=0, dtype=np.float64).astype(np.float32)
    centred = held - mean
    total = float(np.square(centred, dtype=np.float64).sum())
    rounding = float(np.square(held, dtype=np.float64).sum()) * EPSILON**2 * 4
    values, turned = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    variances, found = values[::-1][:axes], turned[:, ::-1][:, :axes].T.copy()
    found[variances <= max(total * 1e-9, rounding)] = 0
    largest = np.abs(found).argmax(axis=1)
    found *= np.sign(found[np.arange(len(found)), largest])[:, None]
    components, explained = np.zeros((axes, len(mean)), np.float32), np.zeros(axes)
    components[: len(found)] = found
    explained[: len(found)] = np.where(found.any(axis=1), variances / (total or 1.0), 0.0)
    return Basis(mean, components, tuple(map(float, np.clip(explained, 0, 1))))


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
