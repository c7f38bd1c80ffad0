"""A search on a map: where the query and each of its hits lie."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcp_server_qdrant.core.datatypes import PointId, Result, SearchPage, Target
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError
from mcp_server_qdrant.core.maps import Map, Panel, PlacedHit, PlacedQuery, Position, View
from mcp_server_qdrant.core.notation import document_id
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.projection.layout import near
from mcp_server_qdrant.projection.neighbours import put_among
from mcp_server_qdrant.projection.pca import unit
from mcp_server_qdrant.qdrant.read.draw import Drawer

SNIPPET = 160

Spot = tuple[str, PointId]  # collection, id
Places = tuple[Position, Position | None]  # in the two layouts


async def place(
    found: Map,
    page: SearchPage,
    targets: Mapping[str, Target],
    drawer: Drawer,
    encoders: Registry,
) -> View:
    """The map with the query and the results, in their order, where they lie on it."""
    queries, spots = await asyncio.gather(
        _queries(found, searched(page), encoders), _hits(found, page, targets, drawer)
    )
    panel_of = {group.collection: i for i, p in enumerate(found.panels) for group in p.groups}
    hits = tuple(
        _placed(rank, result, panel_of, spots) for rank, result in enumerate(page.results, 1)
    )
    notes = [note for _, note in queries if note]
    off = sum(hit.position is None for hit in hits)
    if off:
        which = "One result lies" if off == 1 else f"{off} results lie"
        notes.append(f"{which} in no collection of this map, or without a vector.")
    return View(found, page, tuple(one for one, _ in queries if one), hits, tuple(notes))


def searched(page: SearchPage) -> str:
    """The query as it was searched for: misspelled words replaced."""
    to = {one.word: one.to for one in page.corrections}
    if not to:
        return page.query
    words = "|".join(map(re.escape, to))
    return re.sub(rf"(?<!\w)(?:{words})(?!\w)", lambda found: to[found[0]], page.query)


async def _queries(
    found: Map, query: str, encoders: Registry
) -> list[tuple[PlacedQuery | None, str | None]]:
    async def one(index: int, panel: Panel) -> tuple[PlacedQuery | None, str | None]:
        try:
            made = await encoders.encode_query(panel.model, query)
        except BackendError as error:
            return None, f"The query is not on the map: {error}"
        if len(made) != len(panel.basis.mean):
            return None, f"The query is not on the map: its vector does not fit {panel.model}."
        vector = unit([made])[0][0]
        middles = {group.collection: group.middle for group in panel.groups}
        position, second = _places(panel, vector)
        return PlacedQuery(index, position, near(middles, vector), second), None

    return await asyncio.gather(*(one(*panel) for panel in enumerate(found.panels)))


async def _hits(
    found: Map, page: SearchPage, targets: Mapping[str, Target], drawer: Drawer
) -> dict[Spot, Places]:
    """The places of the results on the map; points that were not drawn are read and placed."""
    wanted: dict[str, list[PointId]] = {}
    for result in page.results:
        wanted.setdefault(result.document.collection, []).append(result.document.id)
    spots: dict[Spot, Places] = {}

    async def of(panel: Panel, collection: str, ids: Sequence[PointId]) -> None:
        try:
            vectors = await drawer.vectors(targets[collection], ids)
        except QdrantMcpError:
            return  # told by the count of results without a place
        for point, vector in vectors.items():
            made, finite = unit(np.asarray([vector], np.float64))
            if finite[0]:
                spots[collection, point] = _places(panel, made[0])

    missing = []
    for panel in found.panels:
        spots |= _drawn(panel, wanted)
        for group in panel.groups:
            ids = wanted.get(group.collection, ())
            if others := [one for one in ids if (group.collection, one) not in spots]:
                missing.append(of(panel, group.collection, others))
    await asyncio.gather(*missing)
    return spots


def _drawn(panel: Panel, wanted: Mapping[str, Sequence[PointId]]) -> dict[Spot, Places]:
    """The places of those that are among the panel's points."""
    found: dict[Spot, Places] = {}
    first = 0
    for group in panel.groups:
        ids = frozenset(wanted.get(group.collection, ()))
        for place, one in enumerate(group.ids if ids else ()):
            if one in ids:
                second = panel.neighbours
                found[group.collection, one] = (
                    _floats(group.positions[place]),
                    None if second is None else _floats(second.places[first + place]),
                )
        first += len(group.ids)
    return found


def _places(panel: Panel, vector: Any) -> Places:
    second = put_among(panel, vector[None])
    return _floats(panel.basis.project(vector)), None if second is None else _floats(second[0])


def _floats(place: Any) -> Position:
    return tuple(map(float, place))


def _placed(
    rank: int, result: Result, panel_of: Mapping[str, int], spots: Mapping[Spot, Places]
) -> PlacedHit:
    document = result.document
    text = " ".join((result.passage or document.text).split())[:SNIPPET]
    position, second = spots.get((document.collection, document.id), (None, None))
    return PlacedHit(
        rank=rank,
        collection=document.collection,
        id=document.id,
        document=document_id(document),
        relevance=result.relevance or 0.0,
        title=document.heading or text,
        snippet=text,
        panel=None if position is None else panel_of[document.collection],
        position=position,
        neighbours=second,
    )
