"""Sampled points -> panels: one per embedding model, on its principal components, with facets."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcp_server_qdrant.core.datatypes import Sample, Target
from mcp_server_qdrant.core.notation import cite
from mcp_server_qdrant.projection.shapes import SEEN, Facet, Group, Map, Panel

EPSILON = float(np.finfo(np.float32).eps)
REDUCED = 50  # axes of the layout by neighbours
VALUES = 8  # shown of a facet
KEYS = 8  # facets
COVERED = 0.2  # share of the points that must have a value
DAY = "created_at"
MANY_VALUED = ("tags", DAY)  # facets even with many values: the most frequent or newest
UNITS = (10, 7, 4)  # characters of an ISO date to the day, month, year

Vectors = NDArray[np.float32]
Part = tuple[Target, Sample, Vectors]  # with unit vectors
Facts = Sequence[Mapping[str, Sequence[str]]]


def lay_out(drawn: Sequence[tuple[Target, Sample]], notes: Sequence[str] = ()) -> Map:
    """The map of each target's sample. Vectors are normalised, so distances follow cosines."""
    said = list(notes)
    models: dict[tuple[str, int], list[Part]] = {}
    for target, points in drawn:
        assert target.dense is not None
        name = cite(target.collection)
        if points.without:
            said.append(f"{name}: {points.without} of the points drawn have no vector")
        elif not points.ids:
            said.append(f"{name}: it is empty")
        if points.ids:
            parts = models.setdefault((target.dense.model, target.dense.size), [])
            kept = replace(
                points, vectors=points.vectors[:0].copy()
            )  # vectors are not cached with the map
            parts.append((target, kept, normalise(points.vectors)))
    return Map(tuple(_make_panel(model, one) for (model, _), one in models.items()), tuple(said))


def cosines(middles: Mapping[str, Vectors], vector: Vectors) -> dict[str, float]:
    """Name -> cosine of its mean to `vector`, nearest first."""
    length = float(np.linalg.norm(vector))
    cosines = {
        name: float(middle @ vector) / (length * float(np.linalg.norm(middle)) or 1.0)
        for name, middle in middles.items()
    }
    return dict(sorted(cosines.items(), key=lambda item: (-item[1], item[0])))


def _make_panel(model: str, parts: Sequence[Part]) -> Panel:
    vectors = np.concatenate([part for _, _, part in parts])
    basis = find_axes(vectors, REDUCED)
    middles = {one.collection: part.mean(axis=0) for one, _, part in parts}
    groups = []
    for target, points, part in parts:
        name, middle = target.collection, middles[target.collection]
        away = np.linalg.norm(part - middle, axis=1)
        others = {other: one for other, one in middles.items() if other != name}
        centre = basis.project(middle)[:SEEN].tolist()
        spread, beside = math.sqrt(float(np.square(away).mean())), cosines(others, middle)
        total = max(target.points, len(part))
        groups.append(Group(name, total, points, centre, spread, beside, middle))
    facts = [fact for _, points, _ in parts for fact in points.facts]
    shares, reduced = basis.explained[:SEEN], basis.project(vectors)
    return Panel(model, tuple(groups), shares, find_facets(facts), basis, reduced)


def find_facets(facts: Facts) -> tuple[Facet, ...]:
    """The facets: tags and age, then the most frequent keys."""
    held = Counter(key for one in facts for key in one)
    keys = [key for key, count in held.most_common() if count >= COVERED * len(facts)]
    keys.sort(key=lambda key: key not in MANY_VALUED)
    found = (_make_facet(key, facts) for key in keys)
    return tuple(one for one in found if one)[:KEYS]


def _make_facet(key: str, facts: Facts) -> Facet | None:
    """The facet of a key; dates by day, month or year, as fine as has at most VALUES values."""
    for length in UNITS if key == DAY else (None,):
        held = [[value[:length] for value in one.get(key, ())] for one in facts]
        counts = Counter(value for values in held for value in values)
        if len(counts) <= VALUES:
            break
    if len(counts) < 2 or not (len(counts) <= VALUES or key in MANY_VALUED):
        return None
    frequent = [value for value, _ in counts.most_common(VALUES)]
    shown = sorted(counts)[-VALUES:] if key == DAY else frequent
    place, none = {value: at for at, value in enumerate(shown)}, len(shown)
    codes = [min((place.get(value, none) for value in values), default=none) for values in held]
    return Facet(key, tuple(shown), np.asarray(codes, np.uint8))


@dataclass(frozen=True, eq=False, slots=True)
class Basis:
    """The axes of a map: `mean` of shape (d,), `components` (axes, d) of unit length, float32.

    `explained` is each axis's share of the variance, in [0, 1], descending. An axis without
    variance has 0 and a zero component.
    """

    mean: Vectors
    components: Vectors
    explained: tuple[float, ...]

    def project(self, vectors: ArrayLike) -> Vectors:
        """Project vectors (n, d), or one (d,), onto the axes: (n, axes) or (axes,); float32."""
        moved = np.asarray(vectors, np.float32) - self.mean
        return np.asarray(moved @ self.components.T, np.float32)


def normalise(vectors: ArrayLike) -> Vectors:
    """Normalise (n, d) vectors; those that are zero or not finite become zero."""
    held = np.array(vectors, np.float64)
    held[~np.isfinite(held).all(axis=1)] = 0.0
    length = np.linalg.norm(held, axis=1, keepdims=True)
    return (held / np.where(length > 0, length, 1.0)).astype(np.float32)


def find_axes(vectors: ArrayLike, axes: int) -> Basis:
    """The principal components of (n, d) finite vectors, n and d at least 1.

    They are eigenvectors of the covariance, with signs that make the largest entry positive. If
    there are fewer dimensions than axes, the last components are zero.
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
