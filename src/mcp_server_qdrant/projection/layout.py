"""Drawn points -> panels: one per embedding model, never mixed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.maps import Drawn, Group, Map, Outlier, Panel
from mcp_server_qdrant.core.notation import called
from mcp_server_qdrant.projection.facets import facets
from mcp_server_qdrant.projection.names import READ
from mcp_server_qdrant.projection.pca import AXES, REDUCED, Basis, Vectors, principal, unit

OUTLIERS = 5
LEARNT = 20_000  # points from which the axes are learnt, evenly from all groups
FAR = 3.0  # standard deviations
TELLING = 10  # points from which on it can be told what is usual

ALIKE = 1e-6  # deviations that rounding alone makes


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """The drawn points of one collection, their unit vectors, the mean, each one's way to it."""

    collection: str
    total: int
    points: Drawn
    vectors: Vectors
    middle: Vectors
    away: Vectors

    @classmethod
    def of(cls, target: Target, points: Drawn, vectors: Vectors) -> "_Part":
        middle = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        away = np.linalg.norm(vectors - middle, axis=1)
        return cls(target.collection, target.points, points, vectors, middle, away)


def lay_out(drawn: Sequence[tuple[Target, Drawn]], notes: Sequence[str] = ()) -> Map:
    """The map of what was drawn of each target. All vectors are made one long, as cosines are."""
    said = list(notes)
    models: dict[tuple[str, int], list[_Part]] = {}
    for target, points in drawn:
        assert target.dense is not None
        sound, vectors, unsound = _sound(points)
        said += _left_out(target, points, unsound)
        if sound.ids:
            key = target.dense.model, target.dense.size
            models.setdefault(key, []).append(_Part.of(target, sound, vectors))
    panels = tuple(_panel(model, parts) for (model, _), parts in models.items())
    return Map(panels, tuple(said))


def near(middles: Mapping[str, Vectors], vector: Vectors) -> dict[str, float]:
    """The names by the cosine of their middle to `vector`, nearest first."""
    length = float(np.linalg.norm(vector))
    cosines = {
        name: float(middle @ vector) / (length * float(np.linalg.norm(middle)) or 1.0)
        for name, middle in middles.items()
    }
    return dict(sorted(cosines.items(), key=lambda item: (-item[1], item[0])))


def _sound(points: Drawn) -> tuple[Drawn, Vectors, int]:
    """The points whose vectors are finite, these vectors one long, and how many are not."""
    vectors, finite = unit(points.vectors)
    unsound = int((~finite).sum())
    if not unsound:
        return points, vectors, 0
    kept = np.flatnonzero(finite).tolist()
    names = ("ids", "documents", "titles", "snippets", "texts", "facts")
    picked: dict[str, Any] = {
        name: tuple(getattr(points, name)[at] for at in kept) for name in names
    }
    sound = replace(points, vectors=points.vectors[finite], **picked)
    return sound, vectors[finite], unsound


def _left_out(target: Target, points: Drawn, unsound: int) -> list[str]:
    name, missing = called(target.collection), points.without
    if not points.ids and not missing:
        return [f"{name}: it is empty"]
    said = []
    if missing:
        said.append(f"{name}: {missing} of the points drawn have no vector")
    if unsound:
        said.append(f"{name}: {unsound} of the points drawn have a vector that is not finite")
    return said


def _panel(model: str, parts: Sequence[_Part]) -> Panel:
    vectors = np.concatenate([part.vectors for part in parts])
    wide = principal(vectors[:: -(-len(vectors) // LEARNT)], REDUCED)
    basis, reduced = wide.first(AXES), wide.project(vectors)
    outliers = [outlier for part in parts for outlier in _outliers(part)]
    outliers.sort(key=lambda one: -one.far)
    return Panel(
        model=model,
        groups=tuple(_group(part, parts, basis) for part in parts),
        explained=basis.explained,
        outliers=tuple(outliers[:OUTLIERS]),
        facets=facets([fact for part in parts for fact in part.points.facts]),
        basis=basis,
        wide=wide,
        reduced=reduced,
        texts=tuple(text[:READ] for part in parts for text in part.points.texts),
    )


def _group(part: _Part, parts: Sequence[_Part], basis: Basis) -> Group:
    points = part.points
    others = {one.collection: one.middle for one in parts if one is not part}
    return Group(
        collection=part.collection,
        total=max(part.total, len(points.ids)),
        ids=points.ids,
        documents=points.documents,
        titles=points.titles,
        snippets=points.snippets,
        positions=basis.project(part.vectors),
        centre=tuple(map(float, basis.project(part.middle))),
        spread=math.sqrt(float(np.square(part.away, dtype=np.float64).mean())),
        near=near(others, part.middle),
        middle=part.middle,
    )


def _outliers(part: _Part) -> list[Outlier]:
    away, points = part.away, part.points
    if len(away) < TELLING:
        return []
    usual, deviation = float(away.mean()), float(away.std())
    if deviation <= ALIKE:
        return []
    farthest = np.argsort(-away, kind="stable")[:OUTLIERS].tolist()
    return [
        Outlier(part.collection, points.ids[at], points.titles[at], far)
        for at in farthest
        if (far := (float(away[at]) - usual) / deviation) >= FAR
    ]
