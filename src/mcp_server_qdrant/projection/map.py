"""Maps of collections: drawn, laid out and kept, with the query and its hits placed on them."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from mcp_server_qdrant.core.access import caller
from mcp_server_qdrant.core.datatypes import SearchPage, Target
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.extras import lacking
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.gather import gathered
from mcp_server_qdrant.core.maps import MOST_DRAWN, Drawn, Map, MapRequest, Panel, View
from mcp_server_qdrant.core.notation import called
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.projection.encode import encode
from mcp_server_qdrant.projection.image import png
from mcp_server_qdrant.projection.layout import lay_out
from mcp_server_qdrant.projection.names import names
from mcp_server_qdrant.projection.neighbours import (
    COMING,
    FEWEST,
    SOME,
    installed,
    neighbours,
)
from mcp_server_qdrant.projection.pca import shares
from mcp_server_qdrant.projection.place import place
from mcp_server_qdrant.projection.tsne import SAMPLED
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.draw import Drawer

KEPT = 8
AT_ONCE = 4  # collections read at the same time
CHECK_SECONDS = 30.0  # so long nobody asks whether another process has written
KEPT_SECONDS = 300.0  # of a map where that cannot be asked

State = tuple[Any, ...]


@dataclass(slots=True)
class _Entry:
    state: State
    made: float
    checked: float
    points: int  # at most
    making: "asyncio.Task[Map]"
    laying: "asyncio.Task[Map] | None" = None  # with the layout by neighbours

    @property
    def failed(self) -> bool:
        """True once there will be no map."""
        made = self.making
        return made.done() and (made.cancelled() or made.exception() is not None)

    def stop(self) -> list["asyncio.Task[Map]"]:
        """Nobody needs the layout by neighbours any more; what has yet to end."""
        running = [one for one in (self.laying,) if one and not one.done()]
        for one in running:
            one.cancel()
        return running

    async def laid(self, made: Map, patience: float) -> Map:
        """The map with the layout by neighbours, if it is there within so many seconds."""
        assert self.laying is not None
        await asyncio.wait({self.laying}, timeout=patience)
        if not self.laying.done() or self.laying.cancelled():
            return replace(made, coming=True, notes=(*made.notes, COMING))
        return self.laying.result()


@dataclass(eq=False)
class Projector:
    """Maps of any collections, each kept while what it shows stays as it is.

    What tells that: how many points each collection holds, what this process wrote, and, every 30
    seconds, when its newest point was written; where that is not indexed, a map is kept for five
    minutes. `search` is the read path.
    """

    catalog: Catalog
    drawer: Drawer
    encoders: Registry
    search: Callable[[SearchRequest], Awaitable[SearchPage]]
    clock: Callable[[], float] = monotonic
    # The last ones, of 100,000 points in all.
    _maps: OrderedDict[State, _Entry] = field(default_factory=OrderedDict, init=False)
    _writes: Counter[str] = field(default_factory=Counter, init=False)
    _laying: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def changed(self, collection: str) -> None:
        """The collection was written to."""
        self._writes[collection] += 1

    async def view(self, request: MapRequest) -> View:
        """The map of the collections, and on it the search, if one is asked for.

        Raises UnknownCollection, and BackendError where no collection could be read.
        """
        targets = await self.catalog.resolve(request.collections)
        if request.search is None:
            return View(await self._map(targets, request))
        found, page = await asyncio.gather(self._map(targets, request), self.search(request.search))
        by_name = {target.collection: target for target in targets}
        return await place(found, page, by_name, self.drawer, self.encoders)

    async def chosen(self, request: MapRequest, spots: Collection[tuple[str, str]]) -> list[str]:
        """The words that tell these points (by collection and id) from the map's others."""
        found = await self._map(await self.catalog.resolve(request.collections), request)
        return await asyncio.to_thread(_chosen, found, frozenset(spots))

    async def encoded(
        self, view: View, axes: int, parts: str = "all", start: int | None = None
    ) -> dict[str, Any]:
        """The view as JSON for a browser; see `projection.encode`."""
        return await asyncio.to_thread(encode, view, axes, parts, start)

    async def picture(self, view: View) -> bytes:
        """The view, which has a panel, as a PNG."""
        return await asyncio.to_thread(png, view)

    async def close(self) -> None:
        """Stop drawing."""
        running = [one for entry in self._maps.values() for one in entry.stop()]
        running += [one.making for one in self._maps.values() if not one.making.done()]
        for one in running:
            one.cancel()
        if running:
            await asyncio.wait(running)

    async def _map(self, targets: Sequence[Target], request: MapRequest) -> Map:
        """The map of the targets: the kept one, or one that is being made, or a new one."""
        limit = request.limit
        key: State = (str(caller()), limit, *(target.collection for target in targets))
        entry = self._maps.get(key)
        counts = [(target.points, self._writes[target.collection]) for target in targets]
        now = self.clock()
        if entry is None or entry.state[0] != counts or now - entry.checked > CHECK_SECONDS:
            newest = await asyncio.gather(
                *(self.catalog.changed_at(target.collection) for target in targets)
            )
            state = (counts, newest)
            entry = self._maps.get(key)  # another caller's by now, perhaps
            if entry is None or entry.state != state or _old(entry, now):
                making = asyncio.ensure_future(self._make(targets, limit))
                points = min(limit, sum(target.points for target in targets))
                if entry:
                    entry.stop()
                entry = _Entry(state, now, now, points, making)
            entry.checked = now
            self._keep(key, entry)
        self._maps.move_to_end(key)
        try:
            made = await asyncio.shield(entry.making)
        finally:
            if entry.failed and self._maps.get(key) is entry:
                del self._maps[key]
        if request.neighbours and entry.laying is None:
            entry.laying = asyncio.ensure_future(self._lay(made))
        return await entry.laid(made, request.patience) if entry.laying else made

    async def _lay(self, made: Map) -> Map:
        """The map with the layout by neighbours, or with a note why it has none."""
        if not any(panel.count >= FEWEST for panel in made.panels):
            return made
        if not installed():
            return replace(made, notes=(*made.notes, lacking("map")))
        try:
            async with self._laying:
                panels = [await _laid(panel) for panel in made.panels]
        except BackendError as error:
            return replace(made, notes=(*made.notes, str(error)))
        notes = (SOME,) if any(panel.count > SAMPLED for panel in panels) else ()
        return replace(made, panels=tuple(panels), notes=(*made.notes, *notes))

    def _keep(self, key: State, entry: _Entry) -> None:
        self._maps[key] = entry
        held = sum(one.points for one in self._maps.values())
        while len(self._maps) > KEPT or (held > MOST_DRAWN and len(self._maps) > 1):
            _, gone = self._maps.popitem(last=False)
            held -= gone.points
            gone.stop()

    async def _make(self, targets: Sequence[Target], limit: int) -> Map:
        notes = [
            f"{called(target.collection)}: {target.note or 'it has no dense vector'}"
            for target in targets
            if target.dense is None and not target.failed
        ]
        unread = [f"{called(one.collection)}: {one.note}" for one in targets if one.failed]
        drawable = [target for target in targets if target.dense and not target.failed]
        counts = shares([target.points for target in drawable], limit)
        wanted = {one.collection: (one, count) for one, count in zip(drawable, counts, strict=True)}
        gate = asyncio.Semaphore(AT_ONCE)

        async def draw(name: str) -> Drawn:
            async with gate:
                return await self.drawer.draw(*wanted[name])

        found, failures = await gathered([*wanted], draw)
        failed = unread + [f"{called(name)}: {error}" for name, error in failures.items()]
        if failed and len(failed) == len(drawable) + len(unread):
            raise BackendError(f"No collection could be read for the map: {failed[0]}")
        drawn = [(wanted[name][0], points) for name, points in found.items()]
        return await asyncio.to_thread(lay_out, drawn, [*notes, *failed])


def _old(entry: _Entry, now: float) -> bool:
    """True where the map may be out of date and nobody can tell."""
    return None in entry.state[1] and now - entry.made > KEPT_SECONDS


async def _laid(panel: Panel) -> Panel:
    places = await neighbours(panel) if panel.count >= FEWEST else None
    return replace(panel, neighbours=places)


def _chosen(found: Map, spots: Collection[tuple[str, str]]) -> list[str]:
    """The words of the first panel that has any of these points."""
    for panel in found.panels:
        held = [
            (group.collection, str(one)) in spots for group in panel.groups for one in group.ids
        ]
        if any(held):
            inside, others = (
                [text for text, here in zip(panel.texts, held, strict=True) if here is wanted]
                for wanted in (True, False)
            )
            return names([inside, others])[0]
    return []
