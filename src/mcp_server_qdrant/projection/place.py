"""A search on a map: where the query and each of its hits lie."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcp_server_qdrant.core.datatypes import PointId, Result, SearchPage, Target
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError
from mcp_server_qdrant.core.maps import Map, Panel, PlacedHit, PlacedQuery, Position, View
from mcp_server_qdrant.core.models import Inferred
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.projection.layout import near
from mcp_server_qdrant.projection.pca import unit
from mcp_server_qdrant.qdrant.draw import Drawer

SNIPPET = 160

Spot = tuple[str, PointId]  # collection, id


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
        if isinstance(made, Inferred):
            return None, "The query is not on the map: the Qdrant server encodes it and keeps it."
        if len(made) != len(panel.basis.mean):
            return None, f"The query is not on the map: its vector does not fit {panel.model}."
        vector = unit([made])[0][0]
        middles = {group.collection: group.middle for group in panel.groups}
        return PlacedQuery(index, _position(panel, vector), near(middles, vector)), None

    return await asyncio.gather(*(one(*panel) for panel in enumerate(found.panels)))


async def _hits(
    found: Map, page: SearchPage, targets: Mapping[str, Target], drawer: Drawer
) -> dict[Spot, Position]:
    """The places of the results on the map; points that were not drawn are read and placed."""
    wanted: dict[str, list[PointId]] = {}
    for result in page.results:
        wanted.setdefault(result.document.collection, []).append(result.document.id)
    spots: dict[Spot, Position] = {}

    async def of(panel: Panel, collection: str, ids: Sequence[PointId]) -> None:
        try:
            vectors = await drawer.vectors(targets[collection], ids)
        except QdrantMcpError:
            return  # told by the count of results without a place
        for point, vector in vectors.items():
            made, finite = unit(np.asarray([vector], np.float64))
            if finite[0]:
                spots[collection, point] = _position(panel, made[0])

    missing = []
    for panel in found.panels:
        for group in panel.groups:
            ids = wanted.get(group.collection)
            if not ids:
                continue
            drawn = dict(zip(group.ids, group.positions, strict=True))
            spots |= {
                (group.collection, one): tuple(map(float, drawn[one]))
                for one in ids
                if one in drawn
            }
            if others := [one for one in ids if one not in drawn]:
                missing.append(of(panel, group.collection, others))
    await asyncio.gather(*missing)
    return spots


def _position(panel: Panel, vector: Any) -> Position:
    return tuple(map(float, panel.basis.project(vector)))


def _placed(
    rank: int, result: Result, panel_of: Mapping[str, int], spots: Mapping[Spot, Position]
) -> PlacedHit:
    document = result.document
    text = " ".join((result.passage or document.text).split())[:SNIPPET]
    position = spots.get((document.collection, document.id))
    return PlacedHit(
        rank=rank,
        collection=document.collection,
        id=document.id,
        relevance=result.relevance or 0.0,
        title=document.heading or text,
        snippet=text,
        panel=None if position is None else panel_of[document.collection],
        position=position,
    )
