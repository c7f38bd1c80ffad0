"""Drawn points -> panels: one per embedding model, never mixed, on their principal components.

And what their points can be coloured by.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.maps import SEEN, Drawn, Facet, Group, Map, Panel
from mcp_server_qdrant.core.notation import called

EPSILON = float(np.finfo(np.float32).eps)
REDUCED = 50  # axes on which neighbours are looked for
# Facets:
VALUES = 8
KEYS = 8
COVERED = 0.2  # share of the points that have a value
DAY = "created_at"
MANY_VALUED = ("tags", DAY)  # shown by their most frequent or newest values, however many
UNITS = (10, 7, 4)  # characters of a date: its day, month, year

Vectors = NDArray[np.float32]
Part = tuple[Target, Drawn, Vectors]  # with vectors one long
Facts = Sequence[Mapping[str, Sequence[str]]]


def lay_out(drawn: Sequence[tuple[Target, Drawn]], notes: Sequence[str] = ()) -> Map:
    """The map of what was drawn of each target. All vectors are made one long, as cosines are."""
    said = list(notes)
    models: dict[tuple[str, int], list[Part]] = {}
    for target, points in drawn:
        assert target.dense is not None
        name = called(target.collection)
        if points.without:
            said.append(f"{name}: {points.without} of the points drawn have no vector")
        elif not points.ids:
            said.append(f"{name}: it is empty")
        if points.ids:
            parts = models.setdefault((target.dense.model, target.dense.size), [])
            kept = replace(points, vectors=points.vectors[:0].copy())  # maps are kept
            parts.append((target, kept, unit(points.vectors)))
    return Map(tuple(_panel(model, parts) for (model, _), parts in models.items()), tuple(said))


def near(middles: Mapping[str, Vectors], vector: Vectors) -> dict[str, float]:
    """The names by the cosine of their middle to `vector`, nearest first."""
    length = float(np.linalg.norm(vector))
    cosines = {
        name: float(middle @ vector) / (length * float(np.linalg.norm(middle)) or 1.0)
        for name, middle in middles.items()
    }
    return dict(sorted(cosines.items(), key=lambda item: (-item[1], item[0])))


def _panel(model: str, parts: Sequence[Part]) -> Panel:
    vectors = np.concatenate([part for _, _, part in parts])
    basis = principal(vectors, REDUCED)
    middles = {one.collection: part.mean(axis=0) for one, _, part in parts}
    groups = []
    for target, points, part in parts:
        name, middle = target.collection, middles[target.collection]
        away = np.linalg.norm(part - middle, axis=1)
        others = {other: one for other, one in middles.items() if other != name}
        group = Group(
            collection=name,
            total=max(target.points, len(part)),
            points=points,
            centre=basis.project(middle)[:SEEN].tolist(),
            spread=math.sqrt(float(np.square(away).mean())),
            near=near(others, middle),
            middle=middle,
        )
        groups.append(group)
    return Panel(
        model=model,
        groups=tuple(groups),
        explained=basis.explained[:SEEN],
        facets=facets([fact for _, points, _ in parts for fact in points.facts]),
        basis=basis,
        reduced=basis.project(vectors),
    )


def facets(facts: Facts) -> tuple[Facet, ...]:
    """Tags and age first, then the keys, those that most points have first."""
    held = Counter(key for one in facts for key in one)
    keys = [key for key, count in held.most_common() if count >= COVERED * len(facts)]
    keys.sort(key=lambda key: key not in MANY_VALUED)
    found = (_facet(key, facts) for key in keys)
    return tuple(one for one in found if one)[:KEYS]


def _facet(key: str, facts: Facts) -> Facet | None:
    of = [list(one.get(key, ())) for one in facts]
    if key == DAY:
        of = _periods(of)
    counts = Counter(value for values in of for value in values)
    few = len(counts) <= VALUES
    if len(counts) < 2 or not (few or key in MANY_VALUED):
        return None
    if key == DAY:
        shown = sorted(counts)[-VALUES:]
    else:
        shown = [value for value, _ in counts.most_common(VALUES)]
    place = {value: at for at, value in enumerate(shown)}
    none = len(shown)
    codes = [min((place.get(value, none) for value in values), default=none) for values in of]
    return Facet(key, tuple(shown), np.asarray(codes, np.uint8))


def _periods(days: Sequence[list[str]]) -> list[list[str]]:
    """The dates by day, month or year: the finest of them that makes few values."""
    for length in UNITS:
        cut = [[day[:length] for day in one] for one in days]
        if len({day for one in cut for day in one}) <= VALUES:
            break
    return cut


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
