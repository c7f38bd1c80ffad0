"""The writes of one tenant: its own points, and nothing that others share with it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.errors import EngineFailure, InvalidPoint, RequestError
from mcp_server_qdrant.core.notation import part_id, point_ids_of
from mcp_server_qdrant.qdrant.filters import among, both
from mcp_server_qdrant.qdrant.payload import head_of
from mcp_server_qdrant.qdrant.tenant.guard import Tenant, at
from mcp_server_qdrant.qdrant.tenant.reads import TenantClient


class TenantWriter(TenantClient):
    """The writes that this server uses, and reads of the tenant's own points alone."""

    def _guard_of(self, tenant: Tenant) -> models.Filter:
        return tenant.own

    async def create_collection(self, collection_name: str, **made: Any) -> bool:
        """Make it, or use what others have made of this name; whether it was made.

        The tenant sees it from now on, to write its first point, and no longer if it does not.
        """
        made_now = await self._make(collection_name, made)
        self._see(collection_name, seen=True)
        return made_now

    async def _make(self, collection_name: str, made: Mapping[str, Any]) -> bool:
        if await self._inner.collection_exists(collection_name):
            return False
        try:
            return bool(await self._inner.create_collection(collection_name, **made))
        except (EngineFailure, RequestError):
            if await self._inner.collection_exists(collection_name):
                return False  # made by another meanwhile
            raise

    async def create_payload_index(
        self, collection_name: str, field_name: str, field_schema: Any = None
    ) -> None:
        """Index a field: it says nothing of anybody's points."""
        await self._inner.create_payload_index(collection_name, field_name, field_schema)

    async def upsert(
        self,
        collection_name: str,
        points: Sequence[models.PointStruct],
        update_filter: models.Filter | None = None,
        update_mode: models.UpdateMode | None = None,
    ) -> None:
        """Write them as the tenant's, those of them that filter and mode let through.

        Raises InvalidPoint where an id is of a point of another's. Ids follow from the tenant, so
        that never happens to what this server writes.
        """
        field, shared = self._tenant.field, self._tenant.shared
        known: dict[Any, Any] = {}
        for record in await self._inner.retrieve(
            collection_name, [point.id for point in points], with_payload=[field, shared]
        ):
            payload = record.payload or {}
            if at(payload, field) != self._tenant.name:
                raise InvalidPoint("A point of this id cannot be written: choose another id.")
            known[str(record.id)] = at(payload, shared)
        new = [point for point in points if str(point.id) not in known]
        known |= await self._replaced(collection_name, new)
        stamped = [
            point.model_copy(
                update={"payload": self._tenant.stamped(point.payload, known.get(str(point.id)))}
            )
            for point in points
        ]
        await self._inner.upsert(
            collection_name, stamped, update_filter=update_filter, update_mode=update_mode
        )
        self._see(collection_name, seen=True)

    async def _replaced(self, name: str, points: Sequence[models.PointStruct]) -> dict[str, Any]:
        """Who the parts that new ones replace are shared with, by the new part's id."""
        heads = {
            str(point.id): head_of(name, str(point.id), (point.payload or {}).get("doc"), None)
            for point in points
        }
        firsts = await self._own(name, {head for head in heads.values() if head is not None})
        before: dict[str, str] = {}
        for point in points:
            head = heads[str(point.id)]
            doc = firsts.get(str(head), {}).get("doc")
            if head is not None and isinstance(doc, dict):
                number = (point.payload or {})["doc"]["chunk"]
                version = doc.get("version")
                if isinstance(version, str):
                    before[str(point.id)] = part_id(str(head), version, number)
                else:
                    identify = point_ids_of(self._tenant.name)
                    before[str(point.id)] = identify(name, str(doc.get("id")), number)
        old = await self._own(name, set(before.values()))
        shared = self._tenant.shared
        return {new: at(old[part], shared) for new, part in before.items() if part in old}

    async def _own(self, name: str, ids: Collection[Any]) -> dict[str, Any]:
        """The payloads of the tenant's own points among these, by id."""
        if not ids:
            return {}
        field, shared = self._tenant.field, self._tenant.shared
        records = await self._inner.retrieve(name, list(ids), with_payload=[field, shared, "doc"])
        payloads = {str(record.id): record.payload or {} for record in records}
        own = self._tenant.name
        return {point: held for point, held in payloads.items() if at(held, field) == own}

    async def delete(
        self,
        collection_name: str,
        points_selector: Any,
    ) -> None:
        """Delete those of the selected points that are the tenant's own."""
        await self._inner.delete(collection_name, self._chosen(points_selector))
        self._seen.pop(collection_name, None)  # it may have been the last

    async def set_payload(
        self,
        collection_name: str,
        payload: Mapping[str, Any],
        points: Any,
        key: str | None = None,
    ) -> None:
        """Merge into the payload of the tenant's own points, but for whose they are."""
        self._refuse_ownership([f"{key}.{name}" if key else name for name in payload], "set")
        await self._inner.set_payload(collection_name, dict(payload), self._chosen(points), key=key)

    async def delete_payload(
        self,
        collection_name: str,
        keys: Sequence[str],
        points: Any,
    ) -> None:
        """Take fields off the tenant's own points, but for whose they are."""
        self._refuse_ownership(keys, "removed")
        await self._inner.delete_payload(collection_name, list(keys), self._chosen(points))

    def _refuse_ownership(self, paths: Sequence[str], changed: str) -> None:
        """Refuse a change at, inside or around the fields that say whose a point is."""
        for path in paths:
            for kept in (self._tenant.field, self._tenant.shared):
                if f"{path}.".startswith(f"{kept}.") or f"{kept}.".startswith(f"{path}."):
                    raise RequestError(f"The field {kept!r} cannot be {changed}.")

    def _chosen(self, selector: Any) -> models.Filter:
        """The own points among those selected, by a filter or by ids."""
        if not isinstance(selector, models.Filter):
            selector = models.Filter(must=[among(selector)])
        self._tenant.check(selector)
        return both(self._guard, selector)
