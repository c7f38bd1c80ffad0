"""Maps of collections: drawn, laid out and kept, with the query and its hits placed on them."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from mcp_server_qdrant.core.datatypes import SearchPage, Target
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.maps import USUAL_POINTS, Map, Panel, View
from mcp_server_qdrant.core.notation import called
from mcp_server_qdrant.core.tasks import gathered
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.projection.encode import encode
from mcp_server_qdrant.projection.image import png
from mcp_server_qdrant.projection.neighbours import COMING, LEAST, installed, neighbours
from mcp_server_qdrant.projection.panels import lay_out
from mcp_server_qdrant.projection.pca import shares
from mcp_server_qdrant.projection.place import place
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.draw import Drawer

KEPT = 8
AT_ONCE = 4  # collections read at the same time
LACKING = (
    "A map with regions, on which near means alike, needs the extra 'map': pip install opentsne "
    "scikit-learn."
)


@dataclass(slots=True)
class _KeptMap:
    state: Any  # of the collections, when it was drawn
    drawing: "asyncio.Task[Map]"
    laid: Map | None = None  # the newest one with its layout by neighbours
    laying: "asyncio.Task[None] | None" = None  # that of what was drawn

    @property
    def busy(self) -> bool:
        """Whether the layout by neighbours is being made."""
        return self.laying is not None and not self.laying.done()

    def stop(self) -> "list[asyncio.Task[Any]]":
        """Nobody needs it any more; what has yet to end."""
        running = [one for one in (self.drawing, self.laying) if one and not one.done()]
        for one in running:
            one.cancel()
        return running


@dataclass(eq=False)
class Projector:
    """Maps of any collections, the last ones kept while what they show stays as it is.

    What tells that: how many points each collection holds, what this process wrote, and, where
    that is indexed, when its newest point was written. `search` is the read path.

    While a layout by neighbours is made, who does not wait for it gets the last map that has one:
    texts that are stored meanwhile come with the next, and no stream of them puts it off for ever.
    """

    catalog: Catalog
    drawer: Drawer
    encoders: Registry
    search: Callable[[SearchRequest], Awaitable[SearchPage]]
    _maps: OrderedDict[Any, _KeptMap] = field(default_factory=OrderedDict, init=False)
    _writes: Counter[str] = field(default_factory=Counter, init=False)
    _laying: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def changed(self, collection: str) -> None:
        """The collection was written to."""
        self._writes[collection] += 1

    async def view(
        self,
        collections: tuple[str, ...] | None = None,
        limit: int = USUAL_POINTS,
        search: SearchRequest | None = None,
        patience: float = 0.0,
    ) -> View:
        """The map of the collections, of `limit` points in all, and on it the search, if any.

        The search says itself which collections it searches. The layout by neighbours is waited for
        `patience` seconds. Raises UnknownCollection, and BackendError where nothing could be read.
        """
        targets = await self.catalog.resolve(collections)
        drawing = self._map(targets, limit, patience)
        if search is None:
            return View(await drawing)
        found, page = await asyncio.gather(drawing, self.search(search))
        by_name = {target.collection: target for target in targets}
        return await place(found, page, by_name, self.drawer, self.encoders)

    async def encoded(self, view: View, *, points: bool = True) -> dict[str, Any]:
        """The view as JSON for a browser; see `projection.encode`."""
        return await asyncio.to_thread(encode, view, points=points)

    async def picture(self, view: View) -> bytes:
        """The view, which has a panel, as a PNG."""
        return await asyncio.to_thread(png, view)

    async def close(self) -> None:
        """Stop drawing."""
        if running := [one for entry in self._maps.values() for one in entry.stop()]:
            await asyncio.wait(running)

    async def _map(self, targets: Sequence[Target], limit: int, patience: float) -> Map:
        """The map of the targets: the kept one, or one that is being drawn, or a new one."""
        entry = await self._entry(targets, limit, patience)
        drawn = await asyncio.shield(entry.drawing)
        if not (installed() and any(map(_large, drawn.panels))):
            return drawn
        entry.laying = entry.laying or asyncio.ensure_future(self._lay(entry, drawn))
        end = monotonic() + patience
        await asyncio.wait({entry.laying}, timeout=patience)
        if entry.laying.cancelled() and (left := end - monotonic()) > 0:  # begun anew for another
            now = await self.catalog.resolve([target.collection for target in targets])
            return await self._map(now, limit, left)
        if entry.laid and not (entry.busy and patience):
            return replace(entry.laid, coming=entry.busy)
        return replace(drawn, coming=True, notes=(*drawn.notes, COMING))

    async def _entry(self, targets: Sequence[Target], limit: int, patience: float) -> _KeptMap:
        key = (limit, *(target.collection for target in targets))
        newest = await asyncio.gather(*(self.catalog.changed_at(one.collection) for one in targets))
        written = [(one.points, self._writes[one.collection]) for one in targets]
        state = (written, newest)
        entry = self._maps.get(key)
        old = entry and entry.state != state and (patience or not entry.busy)
        if entry is None or old or _failed(entry.drawing):
            laid = entry.laid if entry else None
            if entry and entry.laying:
                entry.laying.cancel()
            drawing = asyncio.ensure_future(self._draw(targets, limit))
            entry = self._maps[key] = _KeptMap(state, drawing, laid)
        self._maps.move_to_end(key)
        if len(self._maps) > KEPT:
            self._maps.popitem(last=False)[1].stop()
        return entry

    async def _lay(self, entry: _KeptMap, drawn: Map) -> None:
        """Give a map its layout by neighbours, or a note why it has none."""
        try:
            async with self._laying:
                panels = [
                    replace(panel, neighbours=await neighbours(panel)) if _large(panel) else panel
                    for panel in drawn.panels
                ]
        except BackendError as error:
            entry.laid = replace(drawn, notes=(*drawn.notes, str(error)))
        else:
            entry.laid = replace(drawn, panels=tuple(panels))

    async def _draw(self, targets: Sequence[Target], limit: int) -> Map:
        """The map of the targets on the axes along which they differ most."""
        notes = [
            f"{called(target.collection)}: {target.note or 'it has no dense vector'}"
            for target in targets
            if target.dense is None and not target.failed
        ]
        unread = [f"{called(one.collection)}: {one.note}" for one in targets if one.failed]
        drawable = [target for target in targets if target.dense and not target.failed]
        counts = shares([target.points for target in drawable], limit)
        wanted = {one.collection: (one, count) for one, count in zip(drawable, counts, strict=True)}
        found, failures = await gathered(
            [*wanted], lambda name: self.drawer.draw(*wanted[name]), AT_ONCE
        )
        failed = unread + [f"{called(name)}: {error}" for name, error in failures.items()]
        if failed and len(failed) == len(drawable) + len(unread):
            raise BackendError(f"No collection could be read for the map: {failed[0]}")
        drawn = [(wanted[name][0], points) for name, points in found.items()]
        made = await asyncio.to_thread(lay_out, drawn, [*notes, *failed])
        if any(map(_large, made.panels)) and not installed():
            return replace(made, notes=(*made.notes, LACKING))
        return made


def _failed(drawing: "asyncio.Task[Map]") -> bool:
    """True once there will be no map."""
    return drawing.done() and (drawing.cancelled() or drawing.exception() is not None)


def _large(panel: Panel) -> bool:
    """Whether it has so many points that they have a layout by neighbours."""
    return panel.count >= LEAST
