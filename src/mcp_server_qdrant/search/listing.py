"""The newest texts of collections, for a request without a query."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_server_qdrant.core.datatypes import (
    Found,
    Hit,
    PointId,
    Status,
    Target,
)
from mcp_server_qdrant.core.dates import EARLIEST, Listed, Period
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.gather import gathered
from mcp_server_qdrant.search.engine import Engine, ask, failed
from mcp_server_qdrant.search.query import Listing
from mcp_server_qdrant.search.retrieve import completed, payloads_of
from mcp_server_qdrant.search.texts import Texts

Newest = Callable[[Target, Any, Period | None, int], Awaitable[Listed]]


@dataclass(frozen=True, slots=True)
class Lister:
    """Lists what was updated last, over many collections; `newest` asks one of them."""

    engine: Engine
    newest: Newest
    texts: Texts

    async def listing(
        self,
        targets: Sequence[Target],
        request: SearchRequest,
        period: Period | None,
        limit: int,
        seconds: float,
    ) -> Listing:
        """At most `limit` texts, in `seconds`; a collection that fails becomes a status."""
        condition = self.engine.prepare(request.where())

        async def question(group: Sequence[Target]) -> Sequence[Listed | QdrantMcpError]:
            by_name = {target.collection: target for target in group}
            found, lost = await gathered(
                [*by_name], lambda name: self.newest(by_name[name], condition, period, limit)
            )
            return [found[name] if name in found else lost[name] for name in by_name]

        listed: dict[str, Listed] = {}
        statuses: list[Status] = []
        for target, answer in await ask(self.engine, targets, question, seconds):
            name = target.collection
            if isinstance(answer, QdrantMcpError):
                statuses.append(failed(name, answer))
            else:
                listed[name] = answer
                statuses.append(Status(name, "ok"))
        hits, late = await self._hits(targets, listed, limit, seconds, full=request.mode == "full")
        return Listing([self.texts.document(hit) for hit in hits], listed, [*statuses, *late])

    async def _hits(
        self,
        targets: Sequence[Target],
        listed: Mapping[str, Listed],
        limit: int,
        seconds: float,
        *,
        full: bool,
    ) -> tuple[list[Hit], list[Status]]:
        """The newest of all with their payloads."""
        points = [(name, *point) for name, one in listed.items() for point in one.points]
        points.sort(key=lambda point: (point[0], str(point[1])))
        points.sort(key=lambda point: point[2] or EARLIEST, reverse=True)
        wanted: dict[str, list[PointId]] = {}
        for name, point, _ in points[:limit]:
            wanted.setdefault(name, []).append(point)
        found = {t.collection: Found(t, (), {}, {}) for t in targets}
        payloads, late = await payloads_of(self.engine, found, wanted, seconds)
        hits = [
            Hit(name, point, 0.0, 0.0, 0.0, None, None, payloads[name, point])
            for name, point, _ in points[:limit]
            if (name, point) in payloads
        ]
        if full:
            hits = await completed(self.engine, found, hits, hits, seconds)
        hits.sort(key=lambda hit: self.texts.document(hit).superseded_by is not None)
        return hits, late
