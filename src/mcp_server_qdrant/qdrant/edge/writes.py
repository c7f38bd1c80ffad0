"""The writes of the embedded engine, each checked as a whole before anything is written.

They have the arguments of qdrant-client, and pause between small pieces of work to let reads run.
The engine runs one write at a time, and makes it durable before it acknowledges it.
"""

import asyncio
import pickle
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import qdrant_edge as edge
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import Payload
from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.qdrant.edge import check, types
from mcp_server_qdrant.qdrant.edge.check import plain_payload
from mcp_server_qdrant.qdrant.edge.collection import (
    Entry,
    check_key,
    move_point,
    own_id,
    stored_id,
    stored_payload,
)
from mcp_server_qdrant.qdrant.edge.embedded import Calls, in_turn
from mcp_server_qdrant.qdrant.edge.files import allocated
from mcp_server_qdrant.qdrant.edge.plain import (
    PlainPoint,
    new_description,
    plain,
    plain_choice,
    plain_point,
)
from mcp_server_qdrant.qdrant.edge.points_file import write_points
from mcp_server_qdrant.qdrant.edge.rebuild import rebuild
from mcp_server_qdrant.qdrant.edge.space import Space, all_indexes, translate_errors
from mcp_server_qdrant.qdrant.edge.store import Collection

if TYPE_CHECKING:
    from mcp_server_qdrant.qdrant.engine import Chosen

COPY_SECONDS = 3600.0  # for a whole collection
_KINDS = ("vectors", "sparse_vectors")
_BATCH = 16  # points written together
_MANY = 100  # points
_GROWTH = 4  # bytes on disk per byte of a pickle, a generous estimate
_SMALL = 1 << 20
_GOING = 256  # bytes written per deleted point at most; 150 were measured
_REBUILT = 3  # times the size: a copy, and the new generation

_KIND_OF = {"dense": "vectors", "sparse": "sparse_vectors"}
_MODES = {
    models.UpdateMode.UPSERT: edge.UpdateMode.Upsert,
    models.UpdateMode.INSERT_ONLY: edge.UpdateMode.InsertOnly,
    models.UpdateMode.UPDATE_ONLY: edge.UpdateMode.UpdateOnly,
}

Update = edge.UpdateOperation


class Writes(Calls):
    """The writes of one store."""

    def _require_room(self, wanted: int = _SMALL) -> None:
        self._store.folder.require_space(wanted)

    # Collections

    @in_turn(changes=True)
    async def create_collection(
        self,
        collection_name: str,
        vectors_config: models.VectorParams | Mapping[str, models.VectorParams] | None = None,
        sparse_vectors_config: Mapping[str, models.SparseVectorParams] | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> bool:
        """Create a collection. Raises RequestError if it exists."""
        self._create(
            collection_name, new_description(vectors_config, sparse_vectors_config, metadata)
        )
        return True

    @in_turn(changes=True)
    async def create_described(self, collection_name: str, described: Mapping[str, Any]) -> None:
        """Create a collection from another one's description, with its indexes."""
        self._create(collection_name, described)
        await self._index(collection_name, described["indexes"])

    def _create(self, name: str, described: Mapping[str, Any]) -> None:
        check.check_schema(described["vectors"], described["sparse_vectors"])
        self._require_room()
        self._store.create(name, deepcopy(dict(described)))

    @in_turn(changes=True)
    async def update_collection(self, collection_name: str, metadata: Payload, **_: Any) -> bool:
        """Merge into the collection's metadata, as a server does."""
        entry = self._store.get(collection_name).entry
        self._require_room()
        with translate_errors(collection_name, "could not be described."):
            merged = {**(entry.metadata or {}), **plain_payload(metadata)}
            self._store.catalogue.save(replace(entry, metadata=merged))
        return True

    @in_turn(changes=True)
    async def delete_collection(self, collection_name: str, **_: Any) -> bool:
        """Delete a collection; False if there was none."""
        with translate_errors(collection_name, "could not be deleted."):
            return self._store.drop(collection_name)

    @in_turn(changes=True)
    async def accept_loss(self, collection_name: str) -> tuple[int, int]:
        """Stop reporting points that were lost on disk; (points lost, points left)."""
        found = self._store.get(collection_name)
        points, census = found.count(), found.space.census
        lost = census.missing.get(found.entry.id, 0)
        census.set_missing(found.entry.id, 0)
        census.write()
        return lost, points

    @in_turn(changes=True, seconds=COPY_SECONDS)
    async def save(self, collection_name: str, file: Path) -> int:
        """Write a collection's current points to a new file; returns their number.

        Other writes wait; reads go on. See `points_file`.
        """
        found = self._store.get(collection_name)
        with translate_errors(collection_name, "could not be copied."):
            pages = found.records(_BATCH)
            return await write_points(file, found.entry, pages, self._engine.let_reads_go_first)

    @in_turn(changes=True, seconds=COPY_SECONDS)
    async def adopt(self, collection_name: str, staged: str, *, overwrite: bool) -> None:
        """Rename a collection that was filled under a name beginning with STAGED."""
        found = self._store.get(staged)
        if collection_name in self._store.names() and not overwrite:
            raise RequestError(f"The collection {collection_name!r} already exists.")
        with translate_errors(collection_name, "could not be restored."):
            self._store.catalogue.save(replace(found.entry, name=collection_name))
            self._store.catalogue.forget(staged)
            self._store.discard_earlier(collection_name)

    @in_turn(changes=True, seconds=COPY_SECONDS)
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

    @in_turn(changes=True, seconds=COPY_SECONDS)
    async def rewrite(self) -> None:
        """Rewrite each space, so that no file contains deleted data. Other calls wait."""
        await self._rebuild(keep=False)

    async def _rebuild(self, *, keep: bool) -> None:
        """Build a new generation of each space; `keep`: set the old files aside."""
        failed = None
        for key, space in self._store.spaces.items():
            source, entries = space.readable_generation(), self._store.catalogue.entries_in(key)
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
        place, work = space.new_generation(), folder.new_work_folder("rebuilding")
        vectors, sparse = entries[0].vectors, entries[0].sparse_vectors
        about = {"vectors": vectors, "sparse_vectors": sparse, "optimised_points": 0}
        indexes = {field: one for entry in entries for field, one in entry.indexes.items()}
        done = False
        try:
            with translate_errors("", "could not be rebuilt."):
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

    @in_turn(changes=True)
    async def create_payload_indexes(self, collection: str, schemas: Mapping[str, Any]) -> None:
        """Index payload fields of the whole space; cheap while it is empty."""
        await self._index(collection, plain(schemas))

    async def _index(self, name: str, schemas: Mapping[str, Any]) -> None:
        found = self._store.get(name)
        if schemas.keys() - all_indexes(found.space.engine).keys():
            self._require_room(_rewritten(found, found.space.engine.info().points_count))
        await self._store.index(found.entry, schemas, self._engine.let_reads_go_first)
        indexes = {**found.entry.indexes, **schemas}
        if indexes != found.entry.indexes:
            self._store.catalogue.save_soon(replace(found.entry, indexes=indexes))

    @in_turn(changes=True)
    async def create_vector_name(
        self, collection_name: str, vector_name: str, vector_name_config: Any, **_: Any
    ) -> None:
        """Add a vector to the schema; points get it later.

        Adding the same vector again does nothing, as with a server.
        """
        given = plain(vector_name_config)
        kind, params = next((_KIND_OF[name], one) for name, one in given.items())
        entry = self._store.get(collection_name).entry
        known = getattr(entry, kind).get(vector_name)
        if known is not None:
            if types.same_vector(known, params):
                return
            raise RequestError(
                f"The collection {collection_name!r} has another vector named {vector_name!r}."
            )
        declared: dict[str, Any] = {one: dict(getattr(entry, one)) for one in _KINDS}
        declared[kind][vector_name] = params
        check.check_schema(declared["vectors"], declared["sparse_vectors"])
        await self._move(collection_name, declared)

    @in_turn(changes=True)
    async def delete_vector_name(self, collection_name: str, vector_name: str, **_: Any) -> None:
        """Remove a vector from the schema and from all points."""
        entry = self._store.get(collection_name).entry
        if not any(vector_name in getattr(entry, kind) for kind in _KINDS):
            return
        left = {
            kind: {k: v for k, v in getattr(entry, kind).items() if k != vector_name}
            for kind in _KINDS
        }
        if not any(left.values()):
            raise RequestError(f"{vector_name!r} is the only vector of {collection_name!r}.")
        await self._move(collection_name, left)

    async def _move(self, name: str, declared: Mapping[str, dict[str, Any]]) -> None:
        """Move the collection to the space of these vectors: copy, verify the count, switch."""
        found = self._store.get(name)
        share = allocated(found.space.shard) * (found.count() + 1)
        self._require_room(_SMALL + share // (found.space.engine.info().points_count + 1))
        entry = replace(self._store.new_entry(name, declared), metadata=found.entry.metadata)
        entry = replace(entry, indexes=found.entry.indexes, created_at=found.entry.created_at)
        await self._store.index(entry, entry.indexes, self._engine.let_reads_go_first)
        vectors = {**declared["vectors"], **declared["sparse_vectors"]}
        pages = (
            [move_point(entry, own_id(found.entry, one.id.int), one, vectors) for one in page]
            for page in found.records(_BATCH)
        )
        await self._store.fill(entry, pages, found.count(), self._engine.let_reads_go_first)

    # Points

    @in_turn(changes=True)
    async def upsert(
        self,
        collection_name: str,
        points: Sequence[models.PointStruct],
        update_filter: models.Filter | None = None,
        update_mode: models.UpdateMode | None = None,
        **_: Any,
    ) -> None:
        """Insert or replace points; if one is invalid (InvalidPoint), none.

        `update_mode`, and `update_filter` on existing points, can exclude points.
        """
        found = self._store.get(collection_name)
        only = None if update_filter is None else found.where(plain(update_filter))
        mode = _MODES[update_mode or models.UpdateMode.UPSERT]
        await self._upsert(found, await self._check_batches(found, points), only, mode)

    @in_turn(changes=True, seconds=COPY_SECONDS)
    async def put(self, collection_name: str, points: Sequence[PlainPoint]) -> None:
        """Insert points in the form of `points_file`."""
        found = self._store.get(collection_name)
        await self._upsert(found, await self._check_batches(found, points))

    async def _upsert(
        self,
        found: Collection,
        batches: Sequence[Sequence[PlainPoint]],
        only: edge.Filter | None = None,
        mode: edge.UpdateMode = edge.UpdateMode.Upsert,
    ) -> None:
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
            found.apply(Update.upsert_points(converted, only, mode))
            await self._engine.let_reads_go_first()

    @in_turn(changes=True)
    async def update_vectors(
        self,
        collection_name: str,
        points: Sequence[models.PointVectors],
        update_filter: models.Filter | None = None,
        **_: Any,
    ) -> None:
        """Replace some vectors of existing points; stops at a batch with an unknown point.

        `update_filter` skips points that do not match.
        """
        found = self._store.get(collection_name)
        only = None if update_filter is None else found.where(plain(update_filter))
        for batch in await self._check_batches(found, points):
            converted = [
                edge.PointVectors(stored_id(found.entry, point), types.to_vectors(vector))
                for point, vector, _ in batch
            ]
            ids = {stored_id(found.entry, point) for point, *_ in batch}
            there = found.space.engine.retrieve([*ids], False, False)  # noqa: FBT003
            if len(there) < len(ids):
                raise RequestError("One of the points no longer exists.")
            found.apply(Update.update_vectors(converted, only))
            await self._engine.let_reads_go_first()

    async def _check_batches(
        self, found: Collection, points: Sequence[Any]
    ) -> list[Sequence[PlainPoint]]:
        """The points as plain data, in batches; each is one update of the engine.

        All are refused if one is invalid, or if the disk has no room for them.
        """
        entry, size = found.entry, 0
        schema = {kind: getattr(entry, kind) for kind in _KINDS} | {"name": entry.name}
        batches: list[Sequence[PlainPoint]] = []
        for start in range(0, len(points), _BATCH):
            some = points[start : start + _BATCH]
            batch = [one if isinstance(one, tuple) else plain_point(one) for one in some]
            check.check_points(batch, schema)
            for *_, payload in batch:
                check_key(payload or ())
            size += len(pickle.dumps(batch, pickle.HIGHEST_PROTOCOL))  # 8 microseconds per point
            batches.append(batch)
            await self._engine.let_reads_go_first()
        self._require_room(_GROWTH * size + _SMALL)
        return batches

    # Points selected by a filter

    @in_turn(changes=True)
    async def delete(self, collection_name: str, points_selector: "Chosen", **_: Any) -> None:
        """Delete points."""
        where = plain_choice(points_selector)
        found = self._store.get(collection_name)
        count = found.count(where)
        self._store.folder.require_space(_GOING * count, deleting=True)
        found.space.census.forget()
        found.apply(Update.delete_points_by_filter(found.where(where)))
        found.space.deleted += count

    @in_turn(changes=True)
    async def set_payload(
        self,
        collection_name: str,
        payload: Payload,
        points: "Chosen",
        key: str | None = None,
        **_: Any,
    ) -> None:
        """Merge into the payload (or, with a key, into that part of it)."""
        check_key([key] if key else payload)
        fields, where = plain_payload(payload), plain_choice(points)
        found = self._store.get(collection_name)
        count = found.count(where)
        growth = _GROWTH * len(pickle.dumps(fields, pickle.HIGHEST_PROTOCOL)) * count
        self._require_room(growth + _rewritten(found, count))
        found.apply(Update.set_payload_by_filter(found.where(where), fields, key))

    @in_turn(changes=True)
    async def delete_payload(
        self, collection_name: str, keys: Sequence[str], points: "Chosen", **_: Any
    ) -> None:
        """Remove keys from the payload."""
        check_key(keys)
        where = plain_choice(points)
        found = self._store.get(collection_name)
        self._require_room(_rewritten(found, found.count(where)))
        found.apply(Update.delete_payload_by_filter(found.where(where), [*keys]))


def _rewritten(found: Collection, count: int) -> int:
    """Bytes that a change to `count` points may need; for many, the whole shard's size."""
    return _SMALL + (allocated(found.space.shard) if count > _MANY else 0)
