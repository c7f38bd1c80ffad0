"""One tenant's view of an engine: other tenants' points do not exist in it.

All calls of a tenant go through this class, which adds the tenant's filter. It has only methods
that are restricted this way, so new code that calls any other method fails.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import Payload, PointId
from mcp_server_qdrant.core.errors import InvalidPoint, RequestError, UnknownCollection
from mcp_server_qdrant.core.tasks import gather
from mcp_server_qdrant.qdrant.edge.counts import INCOMPLETE
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.engine import Ask, Candidates, Corpus, Point, WholeEngine
from mcp_server_qdrant.qdrant.filters import both, equal, has_id
from mcp_server_qdrant.qdrant.legs import Described
from mcp_server_qdrant.qdrant.write.points import create

SEEN_SECONDS = 60.0
UNSEEN_SECONDS = 15.0


@dataclass(frozen=True)
class Tenant:
    """A tenant, and the payload field with the owner of a point."""

    name: str
    field: str

    @property
    def own_filter(self) -> models.Filter:
        """A filter for the tenant's points."""
        return models.Filter(must=[equal(self.field, self.name)])

    @property
    def indexes(self) -> dict[str, Any]:
        """The payload index on the owner, which also stores a tenant's points together."""
        kind = models.KeywordIndexType.KEYWORD
        return {self.field: models.KeywordIndexParams(type=kind, is_tenant=True)}

    def add_owner(self, payload: Mapping[str, Any] | None) -> Payload:
        """The payload with this tenant as the owner, replacing any other value."""
        return _with(dict(payload or {}), self.field.split("."), self.name)

    def remove_owner(self, payload: Payload) -> Payload:
        """The payload without the owner field, as the tenant sees it."""
        return _without(payload, self.field.split("."))


class TenantClient:
    """The calls of an engine that this server uses, restricted to one tenant."""

    def __init__(
        self, inner: WholeEngine, tenant: Tenant, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._inner = inner
        self._tenant = tenant
        self._own = tenant.own_filter
        self._plain_own = plain(self._own)
        self._clock = clock
        self._seen: dict[str, tuple[float, bool]] = {}  # collection -> (expiry, visible)

    # Collections: those in which the tenant has a point

    async def get_collections(self) -> models.CollectionsResponse:
        """The names that the tenant may see."""
        response = await self._inner.get_collections()
        seen, failed = await gather([found.name for found in response.collections], self._sees)
        if failed and not seen:
            raise next(iter(failed.values()))
        for name in failed:
            seen[name] = self._seen.get(name, (0.0, False))[1]  # the last known value
        visible = [found for found in response.collections if seen[found.name]]
        return models.CollectionsResponse(collections=visible)

    async def get_aliases(self) -> models.CollectionsAliasesResponse:
        """The aliases of collections that the tenant may see."""
        known = (await self._inner.get_aliases()).aliases
        seen = [one for one in known if await self._sees(one.collection_name)]
        return models.CollectionsAliasesResponse(aliases=seen)

    async def collection_exists(self, collection_name: str) -> bool:
        """True if the tenant may see it; a cached False is checked again."""
        return await self._sees(collection_name, again=True)

    async def _sees(self, name: str, *, again: bool = False) -> bool:
        known = self._seen.get(name)
        until, seen = known or (0.0, False)
        if until > self._clock() and (seen or not again):
            return seen
        try:
            records, _ = await self._inner.scroll(name, self._own, limit=1, with_payload=False)
        except UnknownCollection:
            self._seen.pop(name, None)  # do not cache made-up names
            return False
        if self._seen.get(name) == known:  # else the tenant has just written there
            self._see(name, seen=bool(records))
        return bool(records)

    def _see(self, name: str, *, seen: bool) -> None:
        self._seen[name] = (self._clock() + (SEEN_SECONDS if seen else UNSEEN_SECONDS), seen)

    async def get_collection(self, collection_name: str) -> models.CollectionInfo:
        """The collection's parameters, and the number of the tenant's points in it."""
        if not await self.collection_exists(collection_name):
            raise UnknownCollection(collection_name)
        info = await self._inner.get_collection(collection_name)
        schema = {k: v.model_copy(update={"points": 0}) for k, v in info.payload_schema.items()}
        damaged = info.status == models.CollectionStatus.RED
        return Described(
            space=getattr(info, "space", None),
            status=info.status if damaged else models.CollectionStatus.GREEN,
            warnings=[models.CollectionWarning(message=INCOMPLETE)] if damaged else None,
            optimizer_status=models.OptimizersStatusOneOf.OK,
            points_count=(await self.count(collection_name)).count,
            segments_count=1,
            config=info.config,
            payload_schema=schema,
        )

    async def create_collection(self, collection_name: str, **config: Any) -> bool:
        """Create it, or use an existing one of that name, without telling which.

        The tenant sees it for a while, to write its first point.
        """
        if not await self._inner.collection_exists(collection_name):
            await create(self._inner, collection_name, **config)
        self._see(collection_name, seen=True)
        return True

    async def create_payload_indexes(self, collection: str, schemas: Mapping[str, Any]) -> None:
        """Index fields; this reveals nothing about other tenants' points."""
        await self._inner.create_payload_indexes(collection, schemas)

    # Reads

    async def candidates(self, ask: Ask) -> Candidates:
        """The tenant's candidates."""
        answer = await self._inner.candidates(replace(ask, guard=self._plain_own))
        for found in answer.points:
            found.payload = self._tenant.remove_owner(found.payload)
        return answer

    async def idfs(self, corpus: Corpus) -> dict[int, float]:
        """The IDF of terms over the tenant's points."""
        return await self._inner.idfs(replace(corpus, guard=self._plain_own))

    async def retrieve(
        self, collection_name: str, ids: Sequence[PointId], **shown: Any
    ) -> list[Point]:
        """The tenant's points with these ids."""
        if not ids:
            return []
        these = models.Filter(must=[has_id(ids)])
        return (await self.scroll(collection_name, these, limit=len(ids), **shown))[0]

    async def scroll(
        self, collection_name: str, scroll_filter: models.Filter | None = None, **page: Any
    ) -> tuple[list[Point], PointId | None]:
        """A page of the tenant's points."""
        where = both(self._own, scroll_filter)
        records, following = await self._inner.scroll(collection_name, where, **page)
        for record in records:
            if record.payload:
                record.payload = self._tenant.remove_owner(record.payload)
        return records, following

    async def count(
        self, collection_name: str, count_filter: models.Filter | None = None
    ) -> models.CountResult:
        """The exact number of the tenant's matching points; an estimate would include others."""
        where = both(self._own, count_filter)
        return await self._inner.count(collection_name, count_filter=where)

    async def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: models.Filter | None = None,
        limit: int = 10,
        **_: Any,
    ) -> models.FacetResponse:
        """The most frequent values in the tenant's points, always with exact counts."""
        where = both(self._own, facet_filter)
        return await self._inner.facet(
            collection_name, key, facet_filter=where, limit=limit, exact=True
        )

    # Writes

    async def upsert(
        self,
        collection_name: str,
        points: Sequence[models.PointStruct],
        update_filter: models.Filter | None = None,
        update_mode: models.UpdateMode | None = None,
    ) -> None:
        """Write points as the tenant's, subject to the filter and the mode.

        Raises InvalidPoint if another tenant has a point with one of the ids. This server derives
        ids from the tenant, so its own writes never collide.
        """
        these = has_id(point.id for point in points)
        others = models.Filter(must=[these], must_not=[self._own])
        if (await self._inner.count(collection_name, count_filter=others)).count:
            raise InvalidPoint("A point with this id cannot be written: choose another id.")
        stamped = [
            point.model_copy(update={"payload": self._tenant.add_owner(point.payload)})
            for point in points
        ]
        await self._inner.upsert(
            collection_name, stamped, update_filter=update_filter, update_mode=update_mode
        )
        self._see(collection_name, seen=True)

    async def delete(self, collection_name: str, points_selector: Any) -> None:
        """Delete the tenant's own points among those selected."""
        await self._inner.delete(collection_name, self._own_points(points_selector))
        self._seen.pop(collection_name, None)  # it may have been the last

    async def set_payload(
        self, collection_name: str, payload: Mapping[str, Any], points: Any, key: str | None = None
    ) -> None:
        """Merge into the payload of the tenant's own points, except the owner field."""
        self._refuse_ownership([f"{key}.{name}" if key else name for name in payload], "set")
        await self._inner.set_payload(
            collection_name, dict(payload), self._own_points(points), key=key
        )

    async def delete_payload(self, collection_name: str, keys: Sequence[str], points: Any) -> None:
        """Remove fields from the tenant's own points, except the owner field."""
        self._refuse_ownership(keys, "removed")
        await self._inner.delete_payload(collection_name, list(keys), self._own_points(points))

    def _refuse_ownership(self, paths: Sequence[str], changed: str) -> None:
        """Refuse a change at, inside or around the owner field."""
        field = self._tenant.field
        for path in paths:
            if f"{path}.".startswith(f"{field}.") or f"{field}.".startswith(f"{path}."):
                raise RequestError(f"The field {field!r} cannot be {changed}.")

    def _own_points(self, selector: Any) -> models.Filter:
        """A filter for the tenant's own points among those selected."""
        if not isinstance(selector, models.Filter):
            selector = models.Filter(must=[has_id(selector)])
        return both(self._own, selector)


def _with(payload: Payload, steps: list[str], value: Any) -> Payload:
    first, *deeper = steps
    if deeper:
        inner = payload.get(first)
        value = _with(inner if isinstance(inner, dict) else {}, deeper, value)
    return payload | {first: value}


def _without(payload: Payload, steps: list[str]) -> Payload:
    """A copy of the payload without the value at a path."""
    first, *deeper = steps
    if not deeper:
        return {key: value for key, value in payload.items() if key != first}
    inner = payload.get(first)
    return payload | {first: _without(inner, deeper)} if isinstance(inner, dict) else payload
