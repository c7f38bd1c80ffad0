"""The writes of the engine, each checked as a whole before anything is written.

Each public method is an operation that clients can call; it returns plain data and pauses between
small pieces of work to let reads run. The engine runs one write at a time, and makes it durable
before it acknowledges it.
"""

import asyncio
import pickle
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.qdrant.edge import check, types
from mcp_server_qdrant.qdrant.edge.collection import (
    Entry,
    check_key,
    move_point,
    own_id,
    stored_id,
    stored_payload,
)
from mcp_server_qdrant.qdrant.edge.files import allocated
from mcp_server_qdrant.qdrant.edge.points_file import Point, write_points
from mcp_server_qdrant.qdrant.edge.rebuild import rebuild
from mcp_server_qdrant.qdrant.edge.space import Space, all_indexes, guarded
from mcp_server_qdrant.qdrant.edge.store import Collection, Store

_KINDS = ("vectors", "sparse_vectors")
_MANY = 100  # points
_GROWTH = 4  # bytes on disk per byte of a pickle, a generous estimate
_SMALL = 1 << 20
_GOING = 256  # bytes written per deleted point at most; 150 were measured
_PIECE = 16  # points copied at once
_REBUILT = 3  # times the size: a copy, and the new generation

_MODES = {
    "upsert": edge.UpdateMode.Upsert,
    "insert_only": edge.UpdateMode.InsertOnly,
    "update_only": edge.UpdateMode.UpdateOnly,
}

Update = edge.UpdateOperation


class Writes:
    """The writes of one store."""

    def __init__(self, store: Store, pause: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._pause = pause

    def _require_room(self, wanted: int = _SMALL) -> None:
        self._store.folder.require_space(wanted)

    # Collections

    async def create(self, name: str, described: dict[str, Any]) -> None:
        """Create a collection. Raises RequestError if it exists."""
        check.check_schema(described["vectors"], described["sparse_vectors"])
        self._require_room()
        self._store.create(name, described)

    async def update_metadata(self, name: str, metadata: dict[str, Any]) -> None:
        """Merge into the collection's metadata, as a server does."""
        entry = self._store.get(name).entry
        self._require_room()
        with guarded(name, "could not be described."):
            merged = {**(entry.metadata or {}), **metadata}
            self._store.catalogue.save(replace(entry, metadata=merged))

    async def drop(self, name: str) -> bool:
        """Delete a collection; False if there was none."""
        with guarded(name, "could not be deleted."):
            return self._store.drop(name)

    async def accept_loss(self, name: str) -> tuple[int, int]:
        """Stop reporting points that were lost; (points lost, points left)."""
        found = self._store.get(name)
        points, census = found.count(), found.space.census
        lost = census.missing.get(found.entry.id, 0)
        census.set_missing(found.entry.id, 0)
        census.write()
        return lost, points

    async def save(self, name: str, file: str) -> int:
        """Write a collection's current points to a file; returns their number.

        Other writes wait; reads go on.
        """
        found = self._store.get(name)
        with guarded(name, "could not be copied."):
            pages = found.records(_PIECE)
            return await write_points(Path(file), found.entry, pages, self._pause)

    async def adopt(self, name: str, staged: str, replace_it: bool) -> None:  # noqa: FBT001
        """Rename the collection `staged`, which was filled under a temporary name."""
        found = self._store.get(staged)
        if name in self._store.names() and not replace_it:
            raise RequestError(f"The collection {name!r} already exists.")
        with guarded(name, "could not be restored."):
            self._store.catalogue.save(replace(found.entry, name=name))
            self._store.catalogue.forget(staged)
            self._store.leave_earlier(name)

    async def rebuild(self) -> dict[str, tuple[int, int]]:
        """Rebuild each space from its readable points; {collection: (points left, points lost)}.

        The damaged files are moved to the folder `damaged`.
        """
        await self._rebuild(keep=True)
        done = {}
        for name in self._store.names():
            with suppress(EngineFailure):
                found = self._store.get(name)
                points = found.count()
                done[name] = points, found.space.census.missing.get(found.entry.id, 0)
        return done

    async def rewrite(self) -> None:
        """Rewrite each space, so that no file contains deleted data."""
        await self._rebuild(keep=False)

    async def _rebuild(self, *, keep: bool) -> None:
        """Build a new generation of each space; `keep`: set the old files aside."""
        failed = None
        for key, space in self._store.spaces.items():
            source, entries = space.readable(), self._store.catalogue.of_space(key)
            if source is not None and entries:
                try:
                    await self._rebuild_space(space, source, entries, keep=keep)
                except EngineFailure as error:
                    failed = error  # go on with the other spaces
        if failed:
            raise failed

    async def _rebuild_space(
        self, space: Space, source: Path, entries: Sequence[Entry], *, keep: bool
    ) -> None:
        folder = self._store.folder
        self._require_room(_REBUILT * allocated(source))
        space.close()
        space.fault = "The embedded engine's store is being rebuilt: try again in a minute."
        place, work = space.new_generation(), folder.place("rebuilding")
        vectors, sparse = entries[0].vectors, entries[0].sparse_vectors
        about = {"vectors": vectors, "sparse_vectors": sparse, "optimised_points": 0}
        indexes = {field: one for entry in entries for field, one in entry.indexes.items()}
        done = False
        try:
            with guarded("", "could not be rebuilt."):
                made = about | {"indexes": indexes}
                await asyncio.to_thread(rebuild, source, place, work, made)
                space.switch(place, about)
                done = True
        finally:
            space.fault = None
            folder.discard(work)
            if not done:
                folder.discard(place)
            elif keep:
                folder.set_aside(source)
            else:
                folder.discard(source)

    async def index(self, name: str, schemas: Mapping[str, Any]) -> None:
        """Index payload fields of the whole space; cheap while it is empty."""
        found = self._store.get(name)
        if schemas.keys() - all_indexes(found.space.engine).keys():
            self._require_room(self._rewritten(found, found.space.engine.info().points_count))
        await self._store.index(found.entry, schemas, self._pause)
        indexes = {**found.entry.indexes, **schemas}
        if indexes != found.entry.indexes:
            self._store.catalogue.save_soon(replace(found.entry, indexes=indexes))

    async def add_vector(self, name: str, vector: str, kind: str, params: dict[str, Any]) -> None:
        """Add a vector to the schema; `kind` is `vectors` or `sparse_vectors`.

        Adding the same vector again does nothing, as with a server.
        """
        entry = self._store.get(name).entry
        known = getattr(entry, kind).get(vector)
        if known is not None:
            if types.same_vector(known, params):
                return
            raise RequestError(f"The collection {name!r} has another vector named {vector!r}.")
        declared: dict[str, Any] = {one: dict(getattr(entry, one)) for one in _KINDS}
        declared[kind][vector] = params
        check.check_schema(declared["vectors"], declared["sparse_vectors"])
        await self._move(name, declared)

    async def drop_vector(self, name: str, vector: str) -> None:
        """Remove a vector from the schema and from all points."""
        entry = self._store.get(name).entry
        if not any(vector in getattr(entry, kind) for kind in _KINDS):
            return
        left = {
            kind: {k: v for k, v in getattr(entry, kind).items() if k != vector} for kind in _KINDS
        }
        if not any(left.values()):
            raise RequestError(f"{vector!r} is the only vector of {name!r}.")
        await self._move(name, left)

    async def _move(self, name: str, declared: Mapping[str, dict[str, Any]]) -> None:
        """Move the collection to the space of these vectors: copy, verify the count, switch."""
        found = self._store.get(name)
        share = allocated(found.space.shard) * (found.count() + 1)
        self._require_room(_SMALL + share // (found.space.engine.info().points_count + 1))
        entry = replace(self._store.new(name, declared), metadata=found.entry.metadata)
        entry = replace(entry, indexes=found.entry.indexes, created_at=found.entry.created_at)
        await self._store.index(entry, entry.indexes, self._pause)
        vectors = {**declared["vectors"], **declared["sparse_vectors"]}
        pages = (
            [move_point(entry, own_id(found.entry, one.id.int), one, vectors) for one in page]
            for page in found.records(_PIECE)
        )
        await self._store.fill(entry, pages, found.count(), self._pause)

    # Points

    async def upsert(
        self,
        name: str,
        batches: Sequence[Sequence[Point]],
        mode: str = "upsert",
        where: Mapping[str, Any] | None = None,
    ) -> None:
        """Insert or replace points; each batch is one update of the engine.

        `mode` "insert_only" skips points that exist, "update_only" those that do not; `where` skips
        existing points that do not match.
        """
        found = self._store.get(name)
        only = None if where is None else found.where(where)
        await self._check(found, batches)
        for points in batches:
            converted = [
                edge.Point(
                    stored_id(found.entry, point),
                    types.to_vectors(vector),
                    stored_payload(found.entry, payload),
                )
                for point, vector, payload in points
            ]
            # Without a mode the engine died more often during a write on a full disk.
            found.apply(Update.upsert_points(converted, only, _MODES[mode]))
            await self._pause()

    async def update_vectors(
        self, name: str, batches: Sequence[Sequence[Point]], where: Mapping[str, Any] | None = None
    ) -> None:
        """Replace some vectors of existing points; stops at a batch with an unknown point.

        `where` skips points that do not match.
        """
        found = self._store.get(name)
        only = None if where is None else found.where(where)
        await self._check(found, batches)
        for points in batches:
            converted = [
                edge.PointVectors(stored_id(found.entry, point), types.to_vectors(vector))
                for point, vector, _ in points
            ]
            ids = {stored_id(found.entry, point) for point, *_ in points}
            there = found.space.engine.retrieve([*ids], False, False)  # noqa: FBT003
            if len(there) < len(ids):
                raise RequestError("One of the points no longer exists.")
            found.apply(Update.update_vectors(converted, only))
            await self._pause()

    async def _check(self, found: Collection, batches: Sequence[Sequence[Point]]) -> None:
        """Refuse all points if one is invalid, or if the disk has no room for them."""
        entry, size = found.entry, 0
        schema = {kind: getattr(entry, kind) for kind in _KINDS} | {"name": entry.name}
        for points in batches:
            check.check_points(points, schema)
            for *_, payload in points:
                check_key(payload or ())
            size += _size(points)
            await self._pause()
        self._require_room(_GROWTH * size + _SMALL)

    # Points selected by a filter

    async def delete(self, name: str, where: Mapping[str, Any]) -> None:
        """Delete points."""
        found = self._store.get(name)
        count = found.count(where)
        self._store.folder.require_space(_GOING * count, deleting=True)
        found.space.census.forget()
        found.apply(Update.delete_points_by_filter(found.where(where)))
        found.space.deleted += count

    async def set_payload(
        self, name: str, payload: dict[str, Any], where: Mapping[str, Any], key: str | None
    ) -> None:
        """Merge into the payload (or, with a key, into that part of it)."""
        check_key([key] if key else payload)
        found = self._store.get(name)
        count = found.count(where)
        growth = _GROWTH * _size(payload) * count
        self._require_room(growth + self._rewritten(found, count))
        found.apply(Update.set_payload_by_filter(found.where(where), payload, key))

    async def delete_payload(self, name: str, keys: list[str], where: Mapping[str, Any]) -> None:
        """Remove keys from the payload."""
        check_key(keys)
        found = self._store.get(name)
        self._require_room(self._rewritten(found, found.count(where)))
        found.apply(Update.delete_payload_by_filter(found.where(where), keys))

    def _rewritten(self, found: Collection, count: int) -> int:
        """Bytes that a change to `count` points may need; for many, the whole shard's size."""
        return _SMALL + (allocated(found.space.shard) if count > _MANY else 0)


def _size(plain: Any) -> int:
    """The approximate size of the data in bytes; takes 8 microseconds per point."""
    return len(pickle.dumps(plain, pickle.HIGHEST_PROTOCOL))
