"""A search on a map: where the query and each of its hits lie."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mcp_server_qdrant.core.datatypes import PointId, SearchPage, Target
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError
from mcp_server_qdrant.core.maps import SEEN, Map, Panel, Place, View
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.projection.neighbours import put_among
from mcp_server_qdrant.projection.panels import near
from mcp_server_qdrant.projection.pca import unit
from mcp_server_qdrant.qdrant.read.draw import Drawer


async def place(
    found: Map,
    page: SearchPage,
    targets: Mapping[str, Target],
    drawer: Drawer,
    encoders: Registry,
) -> View:
    """The map with the query and the results, in their order, where they lie on it."""
    queries = [_query(n, panel, page.searched, encoders) for n, panel in enumerate(found.panels)]
    hits = _hits(found, page, targets, drawer)
    spots, placed = await asyncio.gather(hits, asyncio.gather(*queries))
    places = tuple(spots.get((one.document.collection, one.document.id)) for one in page.results)
    notes = [one for one in placed if isinstance(one, str)]
    if off := places.count(None):
        which = "One result lies" if off == 1 else f"{off} results lie"
        notes.append(f"{which} in no collection of this map, or without a vector.")
    shown = tuple(one for one in placed if isinstance(one, Place))
    return View(found, page, shown, places, tuple(notes))


async def _query(index: int, panel: Panel, query: str, encoders: Registry) -> Place | str:
    """The query in one panel, or why it is not there."""
    try:
        made = await encoders.encode_query(panel.model, query)
    except BackendError as error:
        return f"The query is not on the map: {error}"
    if len(made) != len(panel.basis.mean):
        return f"The query is not on the map: its vector does not fit {panel.model}."
    vector = unit([made])[0]
    middles = {group.collection: group.middle for group in panel.groups}
    return replace(_further(index, panel, vector), near=near(middles, vector))


async def _hits(
    found: Map, page: SearchPage, targets: Mapping[str, Target], drawer: Drawer
) -> dict[tuple[str, PointId], Place]:
    """The places of the results on the map; points that were not drawn are read and placed."""
    wanted = {(one.document.collection, one.document.id) for one in page.results}
    spots: dict[tuple[str, PointId], Place] = {}

    async def read(index: int, panel: Panel, collection: str, ids: Sequence[PointId]) -> None:
        with suppress(QdrantMcpError):  # told by the count of results without a place
            vectors = await drawer.vectors(targets[collection], ids)
            for point, vector in vectors.items():
                spots[collection, point] = _further(index, panel, unit([vector])[0])

    missing = []
    for index, panel in enumerate(found.panels):
        drawn = ((group.collection, point) for group in panel.groups for point in group.points.ids)
        for row, spot in enumerate(drawn):
            if spot in wanted:
                laid = panel.neighbours
                beside = laid.places[row].tolist() if laid else None
                spots[spot] = Place(index, panel.reduced[row, :SEEN].tolist(), beside)
        for group in panel.groups:
            name = group.collection
            if left := [id_ for where, id_ in wanted - spots.keys() if where == name]:
                missing.append(read(index, panel, name, left))
    await asyncio.gather(*missing)
    return spots


def _further(index: int, panel: Panel, vector: Any) -> Place:
    """The place of a unit vector that was not drawn."""
    reduced = panel.basis.project(vector)
    return Place(index, reduced[:SEEN].tolist(), put_among(panel, reduced))
