"""The writes of the engine, each checked as a whole before anything is written.

Each public method is an operation that clients may ask for, and returns its plain result. It pauses
between small pieces of work, so that reads get in between. The host does one after the other, and
makes it durable before it acknowledges.
"""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.hosting.wire import pack, unpack
from mcp_server_qdrant.qdrant.edge import check, types
from mcp_server_qdrant.qdrant.edge.files import DESCRIPTION, allocated, copy_sparse
from mcp_server_qdrant.qdrant.edge.shards import Shard, Shards, guarded

_KINDS = ("vectors", "sparse_vectors")
_MANY = 100  # points
_GROWTH = 4  # bytes on the disk per byte on the wire, generously
_SMALL = 1 << 20
_GOING = 256  # bytes that the deletion of a point writes at most; 150 were seen

_MODES = {
    "upsert": edge.UpdateMode.Upsert,
    "insert_only": edge.UpdateMode.InsertOnly,
    "update_only": edge.UpdateMode.UpdateOnly,
}

Update = edge.UpdateOperation


class Writes:
    """The writes of one host."""

    def __init__(self, shards: Shards, pause: Callable[[], Awaitable[None]]) -> None:
        self._shards = shards
        self._pause = pause

    def _room(self, wanted: int = _SMALL) -> None:
        self._shards.folder.require_space(wanted)

    # Collections

    async def create(self, name: str, sidecar: dict[str, Any]) -> None:
        """Make a collection; refused when it exists."""
        check.check_schema(sidecar["vectors"], sidecar["sparse_vectors"])
        self._room()
        self._shards.create(name, sidecar)

    async def update_metadata(self, name: str, metadata: dict[str, Any]) -> None:
        """Merge into the collection's metadata, as the server does."""
        shard = self._shards.get(name)
        self._room()
        merged = {**(shard.sidecar.get("metadata") or {}), **metadata}
        shard.save(metadata=merged)

    async def drop(self, name: str) -> bool:
        """Delete a collection; False when there was none."""
        return self._shards.drop(name)

    async def accept_loss(self, name: str) -> tuple[int, int]:
        """Go on without points that are missing: how many those are, and how many are there."""
        shard = self._shards.get(name)
        points = shard.count()  # it is opened for it
        return shard.census.accept(), points

    async def save(self, name: str, folder: str) -> int:
        """Copy a collection, as it is now, into another folder of shards; its number of points.

        Writes wait meanwhile, reads go on.
        """
        shard = self._shards.get(name)
        points = shard.count()
        shard.flush()
        target = Path(folder) / shard.path.name
        shard.pinned = True  # closing it could change its files
        try:
            with guarded(name, "could not be copied."):
                shutil.rmtree(target, ignore_errors=True)  # of a host that died
                await asyncio.to_thread(copy_sparse, shard.path, target)
        finally:
            shard.pinned = False
        return points

    async def adopt(self, name: str, staged: str, replace: bool) -> None:  # noqa: FBT001
        """Make a collection that was staged, in a directory of that name, the one of its name."""
        if name in self._shards.names() and not replace:
            raise RequestError(f"The collection {name!r} already exists.")
        place = self._shards.folder.work / Path(staged).name
        with guarded(name, "could not be restored."):
            sidecar = json.loads((place / DESCRIPTION).read_text("utf-8"))
            if sidecar["name"] != name or not isinstance(sidecar.get("metadata"), dict | None):
                raise RequestError(f"What is staged is not the collection {name!r}.")
            check.check_schema(sidecar["vectors"], sidecar["sparse_vectors"])
            self._shards.adopt(sidecar, place)

    async def index(self, name: str, schemas: Mapping[str, Any]) -> None:
        """Index payload fields; cheap while the collection is empty."""
        shard = self._shards.get(name)
        made = {field: types.index_params(schema) for field, schema in schemas.items()}
        for field, params in made.items():
            self._room(self._rewritten(shard, shard.count()))
            shard.apply(Update.create_field_index(field, params))
            await self._pause()
        if detailed := {key: one for key, one in schemas.items() if isinstance(one, dict)}:
            shard.save(indexes={**shard.sidecar.get("indexes", {}), **detailed})

    async def add_vector(self, name: str, vector: str, kind: str, params: dict[str, Any]) -> None:
        """Give the collection one more vector, `vectors` or `sparse_vectors`, which no point has.

        Asked for again with the same parameters it changes nothing, as with the server.
        """
        shard = self._shards.get(name)
        known = shard.sidecar[kind].get(vector)
        if known is not None:
            if types.same_vector(known, params):
                return
            raise RequestError(f"The collection {name!r} has another vector named {vector!r}.")
        declared = {k: dict(shard.sidecar[k]) for k in _KINDS}
        declared[kind][vector] = params
        check.check_schema(declared["vectors"], declared["sparse_vectors"])
        self._room()
        shard.apply(types.new_vector(vector, kind, params))
        # Durable in the engine first: points may bring the vector once the description has it.
        self._shards.settle(name)
        # The new vector is not optimised yet.
        shard.save(**declared, optimised_points=0)

    async def drop_vector(self, name: str, vector: str) -> None:
        """Take a vector, and what the points have of it, away for good."""
        shard = self._shards.get(name)
        if not any(vector in shard.sidecar[kind] for kind in _KINDS):
            return
        kept = {
            kind: {k: v for k, v in shard.sidecar[kind].items() if k != vector} for kind in _KINDS
        }
        if not any(kept.values()):
            raise RequestError(f"{vector!r} is the only vector of {name!r}.")
        self._room()
        shard.save(**kept)
        shard.apply(Update.delete_vector_name(vector))

    # Points

    async def upsert(
        self,
        name: str,
        blobs: Sequence[bytes],
        mode: str = "upsert",
        where: Mapping[str, Any] | None = None,
    ) -> None:
        """Insert or replace points; each blob is a pickled list of them.

        `mode` "insert_only" leaves those that exist as they are, "update_only" writes no others;
        `where` leaves out those that exist and do not match.
        """
        shard = self._shards.get(name)
        for points in await self._checked(shard, blobs):
            converted = [types.to_point(point) for point in points]
            # Without a mode the host was seen to die more often in mid-write on a full disk.
            update = Update.upsert_points(converted, types.to_filter(where), _MODES[mode])
            shard.apply(update)
            await self._pause()

    async def update_vectors(
        self, name: str, blobs: Sequence[bytes], where: Mapping[str, Any] | None = None
    ) -> None:
        """Replace some vectors of points that exist; refused from the first that does not.

        `where` leaves out those that do not match.
        """
        shard = self._shards.get(name)
        for points in await self._checked(shard, blobs):
            ids = {point_id for point_id, *_ in points}
            there = shard.engine.retrieve([*ids], False, False)  # noqa: FBT003
            if len(there) < len(ids):
                raise RequestError("One of the points is not there any more.")
            converted = [
                edge.PointVectors(point_id, types.to_vectors(vector))
                for point_id, vector, _ in points
            ]
            shard.apply(Update.update_vectors(converted, types.to_filter(where)))
            await self._pause()

    async def _checked(self, shard: Shard, blobs: Sequence[bytes]) -> list[list[Any]]:
        """The points of the blobs, all of them checked; each blob is one update of the engine."""
        self._room(_GROWTH * sum(map(len, blobs)) + _SMALL)
        batches = []
        for blob in blobs:
            batches.append(unpack(blob))
            check.check_points(batches[-1], shard.sidecar)
            await self._pause()
        return batches

    # Points that a filter chooses

    async def delete(self, name: str, where: Mapping[str, Any]) -> None:
        """Delete points."""
        shard, chosen, count = self._chosen(name, where)
        self._shards.folder.require_space(_GOING * count, deleting=True)
        shard.census.forget()
        shard.apply(Update.delete_points_by_filter(chosen))
        shard.deleted += count

    async def set_payload(
        self, name: str, payload: dict[str, Any], where: Mapping[str, Any], key: str | None
    ) -> None:
        """Merge into the payload (or, with a key, into that part of it)."""
        shard, chosen, count = self._chosen(name, where)
        growth = _GROWTH * len(pack(payload)) * count
        self._room(growth + self._rewritten(shard, count))
        shard.apply(Update.set_payload_by_filter(chosen, payload, key))

    async def delete_payload(self, name: str, keys: list[str], where: Mapping[str, Any]) -> None:
        """Remove keys from the payload."""
        shard, chosen, count = self._chosen(name, where)
        self._room(self._rewritten(shard, count))
        shard.apply(Update.delete_payload_by_filter(chosen, keys))

    def _chosen(self, name: str, where: Mapping[str, Any]) -> tuple[Shard, edge.Filter, int]:
        """The points that a filter chooses, and how many they are."""
        shard = self._shards.get(name)
        chosen = types.to_filter(where) or edge.Filter()
        request = edge.CountRequest(exact=True, filter=chosen)
        return shard, chosen, shard.engine.count(request)

    def _rewritten(self, shard: Shard, count: int) -> int:
        """Bytes that a change to so many points may take: of many, those of the whole shard."""
        return _SMALL + (allocated(shard.path) if count > _MANY else 0)
