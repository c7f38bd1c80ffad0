"""Samples, lays out and caches maps, and places the query and its hits on them."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mcp_server_qdrant.core.datatypes import PointId, SearchPage, Target
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import cite, plural
from mcp_server_qdrant.core.tasks import gather
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.projection.encode import encode
from mcp_server_qdrant.projection.neighbours import (
    COMING,
    LEAST,
    is_installed,
    lay_out_neighbours,
    place_among,
)
from mcp_server_qdrant.projection.panels import cosines, lay_out, normalise
from mcp_server_qdrant.projection.shapes import SEEN, USUAL_POINTS, Map, Panel, Place, View
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.sample import Sampler

Point = tuple[str, PointId]  # collection, id

CACHED = 16  # cached maps, of all tenants together
DRAWN_AT_ONCE = 4
AT_ONCE = 4  # collections read at the same time
LACKING = (
    "A map with regions, on which similar texts are close, needs the extra 'map': pip install "
    "opentsne scikit-learn."
)


@dataclass(slots=True)
class _CachedMap:
    state: Any  # of the collections when they were sampled; the map is stale once it differs
    drawing: "asyncio.Task[Map]"
    laid: Map | None  # the newest map with a layout by neighbours
    laying: "asyncio.Task[None] | None" = None  # computes that layout

    @property
    def tasks(self) -> "list[asyncio.Task[Any]]":
        """The tasks that make the map."""
        return [one for one in (self.drawing, self.laying) if one]

    @property
    def busy(self) -> bool:
        """True while the layout by neighbours is computed."""
        return self.laying is not None and not self.laying.done()

    @property
    def failed(self) -> bool:
        """True if a task failed or was cancelled."""
        return any(one.done() and (one.cancelled() or one.exception()) for one in self.tasks)


@dataclass(eq=False)
class MapCache:
    """Shared by the projectors of all tenants: the cached maps, and the locks to make one.

    A layout by neighbours takes a process of about 450 MB, so only one runs at a time.
    """

    maps: OrderedDict[Any, _CachedMap] = field(default_factory=OrderedDict)
    drawing: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, DRAWN_AT_ONCE))
    laying: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(eq=False)
class Projector:
    """Makes maps of any collections, and caches the last ones until a collection changes.

    A change is detected by the number of points, by this process's writes and, if `updated_at` is
    indexed, by the time of the newest point. `search` is the read path.

    While a layout by neighbours is computed, callers that do not wait get the last map that has
    one. Texts stored meanwhile appear in the next map, so a stream of them cannot delay it forever.
    """

    catalog: Catalog
    drawer: Sampler
    encoders: Registry
    search: Callable[[SearchRequest], Awaitable[SearchPage]]
    shelf: MapCache = field(default_factory=MapCache)
    _writes: Counter[str] = field(default_factory=Counter, init=False)

    def note_write(self, collection: str) -> None:
        """Note that the collection was written to."""
        self._writes[collection] += 1

    async def view(
        self,
        collections: tuple[str, ...] | None = None,
        limit: int = USUAL_POINTS,
        search: SearchRequest | None = None,
        patience: float = 0.0,
    ) -> View:
        """The map of the collections, with `limit` points in all, and the search on it, if any.

        The search has its own collections. The layout by neighbours is waited for up to `patience`
        seconds. Raises UnknownCollection, and BackendError if nothing could be read.
        """
        targets = await self.catalog.resolve(collections)
        drawing = self._map(targets, limit, patience)
        if search is None:
            return View(await drawing)
        found, page = await asyncio.gather(drawing, self.search(search))
        return await self._place(found, page, {one.collection: one for one in targets})

    async def encode_view(self, view: View, *, points: bool = True) -> dict[str, Any]:
        """The view as JSON for a browser; see `projection.encode`."""
        return await asyncio.to_thread(encode, view, points=points)

    async def close(self) -> None:
        """Cancel this projector's tasks."""
        own = [entry for (owner, *_), entry in self.shelf.maps.items() if owner is self]
        if tasks := [task for entry in own for task in entry.tasks]:
            _cancel(tasks)
            await asyncio.wait(tasks)

    async def _map(self, targets: Sequence[Target], limit: int, patience: float) -> Map:
        """The map of the targets: cached, in progress, or new."""
        names = [one.collection for one in targets]
        maps, key = self.shelf.maps, (self, limit, *names)
        newest = await asyncio.gather(*map(self.catalog.changed_at, names))
        state = [(one.points, self._writes[one.collection]) for one in targets], newest
        entry = maps.get(key)
        old = entry and entry.state != state and (patience or not entry.busy)
        if entry is None or old or entry.failed:
            laid = entry.laid if entry else None
            if entry and entry.laying:
                entry.laying.cancel()
            drawing = asyncio.ensure_future(self._draw(targets, limit))
            entry = maps[key] = _CachedMap(state, drawing, laid)
        maps.move_to_end(key)
        drawn_ones = [one for one, kept in maps.items() if kept.drawing.done()]
        for old in drawn_ones[: max(len(maps) - CACHED, 0)]:  # callers wait for the others
            _cancel(maps.pop(old).tasks)
        drawn = await asyncio.shield(entry.drawing)
        if not (is_installed() and any(map(_is_large, drawn.panels))):
            return drawn
        entry.laying = entry.laying or asyncio.ensure_future(self._lay(entry, drawn))
        await asyncio.wait({entry.laying}, timeout=patience)
        made = not entry.busy and not entry.failed
        if entry.laid and (made or not patience):
            return replace(entry.laid, coming=not made or entry.state != state)
        return replace(drawn, coming=True, notes=(*drawn.notes, COMING))

    async def _lay(self, entry: _CachedMap, drawn: Map) -> None:
        """Add the layout by neighbours to a map, or a note that it failed."""
        try:
            async with self.shelf.laying:
                panels = [
                    replace(panel, neighbours=await lay_out_neighbours(panel))
                    if _is_large(panel)
                    else panel
                    for panel in drawn.panels
                ]
            entry.laid = replace(drawn, panels=tuple(panels))
        except BackendError as error:
            entry.laid = replace(drawn, notes=(*drawn.notes, str(error)))

    async def _draw(self, targets: Sequence[Target], limit: int) -> Map:
        """The map of the targets on their principal components."""
        notes = [
            f"{cite(target.collection)}: {target.note or 'it has no dense vector'}"
            for target in targets
            if target.dense is None and not target.failed
        ]
        unread = [f"{cite(one.collection)}: {one.note}" for one in targets if one.failed]
        drawable = [target for target in targets if target.dense and not target.failed]
        counts = shares([target.points for target in drawable], limit)
        wanted = {one.collection: (one, count) for one, count in zip(drawable, counts, strict=True)}
        async with self.shelf.drawing:
            found, failures = await gather(
                [*wanted], lambda name: self.drawer.sample(*wanted[name]), AT_ONCE
            )
            failed = unread + [f"{cite(name)}: {error}" for name, error in failures.items()]
            if failed and len(failed) == len(drawable) + len(unread):
                raise BackendError(f"No collection could be read for the map: {failed[0]}")
            drawn = [(wanted[name][0], points) for name, points in found.items()]
            made = await asyncio.to_thread(lay_out, drawn, [*notes, *failed])
        if any(map(_is_large, made.panels)) and not is_installed():
            return replace(made, notes=(*made.notes, LACKING))
        return made

    async def _place(self, found: Map, page: SearchPage, targets: Mapping[str, Target]) -> View:
        """The map with the positions of the query and the results, in the results' order."""
        panels = enumerate(found.panels)
        queries = [self._place_query(n, panel, page.searched) for n, panel in panels]
        hits = self._place_hits(found, page, targets)
        spots, placed = await asyncio.gather(hits, asyncio.gather(*queries))
        points = [(one.document.collection, one.document.id) for one in page.results]
        places = tuple(map(spots.get, points))
        notes = [one for one in placed if isinstance(one, str)]
        if off := places.count(None):
            why = "in another collection, or without a vector"
            notes.append(f"{plural(off, 'result')} not on the map: {why}.")
        shown = tuple(one for one in placed if isinstance(one, Place))
        return View(found, page, shown, places, tuple(notes))

    async def _place_query(self, index: int, panel: Panel, query: str) -> Place | str:
        """The position of the query in a panel, or a note why it has none."""
        try:
            made = await self.encoders.encode_query(panel.model, query)
        except BackendError as error:
            return f"The query is not on the map: {error}"
        if len(made) != len(panel.basis.mean):
            return f"The query is not on the map: its vector does not fit {panel.model}."
        vector = normalise([made])[0]
        middles = {group.collection: group.middle for group in panel.groups}
        return replace(_project(index, panel, vector), near=cosines(middles, vector))

    async def _place_hits(
        self, found: Map, page: SearchPage, targets: Mapping[str, Target]
    ) -> dict[Point, Place]:
        """The positions of the results; vectors of points outside the sample are read."""
        wanted = {(one.document.collection, one.document.id) for one in page.results}
        spots: dict[Point, Place] = {}

        async def read(index: int, panel: Panel, name: str) -> None:
            left = [id_ for where, id_ in wanted - spots.keys() if where == name]
            with suppress(QdrantMcpError):  # a note counts the results without a position
                vectors = await self.drawer.vectors(targets[name], left) if left else {}
                for point, vector in vectors.items():
                    spots[name, point] = _project(index, panel, normalise([vector])[0])

        missing = []
        for index, panel in enumerate(found.panels):
            drawn = ((group.collection, id_) for group in panel.groups for id_ in group.points.ids)
            for row, spot in enumerate(drawn):
                if spot in wanted:
                    laid = panel.neighbours
                    beside = laid.places[row].tolist() if laid else None
                    spots[spot] = Place(index, panel.reduced[row, :SEEN].tolist(), beside)
            missing += [read(index, panel, group.collection) for group in panel.groups]
        await asyncio.gather(*missing)
        return spots


def _cancel(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()


def _project(index: int, panel: Panel, vector: Any) -> Place:
    """The position of a unit vector that is not in the sample."""
    reduced = panel.basis.project(vector)
    return Place(index, reduced[:SEEN].tolist(), place_among(panel, reduced))


def _is_large(panel: Panel) -> bool:
    """True if the panel has enough points for a layout by neighbours."""
    return panel.count >= LEAST


def shares(sizes: Sequence[int], most: int) -> list[int]:
    """The sample size of each collection: as even as possible, `most` in all.

    A collection smaller than its share is taken whole, and the others share the rest. Each
    non-empty one gives at least one point, even beyond `most`.
    """
    drawn = [0] * len(sizes)
    left = most
    ranked = sorted((size, place) for place, size in enumerate(sizes) if size > 0)
    for done, (size, place) in enumerate(ranked):
        drawn[place] = min(size, max(left // (len(ranked) - done), 1))
        left -= drawn[place]
    return drawn
