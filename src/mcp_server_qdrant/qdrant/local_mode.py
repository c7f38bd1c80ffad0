"""A folder of qdrant-client's local mode: it is only read, and imported once.

meta.json                           collection -> its parameters
collection/<name>/storage.sqlite    a pickled row per point
imported.json                       collection -> the state of its import; written by this server

Only classes that local mode uses are unpickled; a row that is damaged or holds anything else is
counted and skipped.
"""

import asyncio
import contextlib
import io
import json
import pickle
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

from filelock import AsyncFileLock
from pydantic import BaseModel
from qdrant_client.http.models import models

from mcp_server_qdrant.core.datatypes import Payload, PointId
from mcp_server_qdrant.core.disk import write_atomically
from mcp_server_qdrant.core.errors import (
    EngineFailure,
    QdrantMcpError,
    UnknownCollection,
    contained,
)
from mcp_server_qdrant.qdrant.edge.check import check_points, plain_payload
from mcp_server_qdrant.qdrant.edge.plain import plain_vectors
from mcp_server_qdrant.qdrant.write.bulk import Shape

META = "meta.json"
JOURNAL = "imported.json"
LOCKED_SECONDS = 30.0  # another process may be writing
_POLL_SECONDS = 0.1
_PLAIN = {
    ("uuid", "UUID"),
    ("uuid", "SafeUUID"),
    *(("datetime", name) for name in ("datetime", "date", "timedelta", "timezone")),
    *(("builtins", name) for name in ("set", "frozenset", "bytearray")),
    *(
        (f"numpy.{core}.multiarray", name)
        for core in ("core", "_core")
        for name in ("_reconstruct", "scalar")
    ),
    *(("numpy", name) for name in ("ndarray", "dtype")),
    ("_codecs", "encode"),
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Refuse all classes except harmless ones: unpickling others could run code."""
        if module == "qdrant_client.http.models.models":
            found = getattr(models, name)
            if isinstance(found, type) and issubclass(found, BaseModel | Enum):
                return found
        elif (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not of local mode")


class LocalFiles:
    """The collections of such a folder, which may be in use, and the state of their import.

    `unreadable` maps a collection to the number of skipped points, once `count` was called.
    `states` are `begun`, `done` or `refused`; a collection without a state is new.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shapes = _shapes(folder / META)
        self._rows: dict[str, dict[PointId, bytes]] = {}  # cache of the collection read last
        self.unreadable: dict[str, int] = {}
        self.states = _states(folder)

    async def names(self) -> list[str]:
        """All collections."""
        return sorted(self._shapes)

    async def shape(self, name: str) -> Shape:
        """The parameters of a collection."""
        if name not in self._shapes:
            raise UnknownCollection(name)
        return self._shapes[name]

    async def count(self, name: str) -> int:
        """The number of readable points."""
        return len(await self._cached_rows(name))

    async def pages(self, name: str, size: int, **_: Any) -> AsyncGenerator[list[Any]]:
        """All points in pages, with their vectors, which are in the same row."""
        rows = list((await self._cached_rows(name)).values())
        for start in range(0, len(rows), size):
            yield await asyncio.to_thread(self._points, name, rows[start : start + size])

    async def payloads(self, name: str, ids: Sequence[PointId]) -> dict[PointId, Payload]:
        """The payloads of these points by id; missing points are left out."""
        rows = await self._cached_rows(name)
        wanted = [rows[point] for point in ids if point in rows]
        found = await asyncio.to_thread(self._points, name, wanted)
        return {point.id: point.payload for point in found}

    def save_state(self, name: str, state: str) -> None:
        """Save the state of a collection's import; durable on return."""
        self.states[name] = state
        write_atomically(self._folder / JOURNAL, json.dumps(self.states))

    async def _cached_rows(self, name: str) -> dict[PointId, bytes]:
        """The readable rows by id; cached for one collection."""
        if name not in self._rows:
            self._rows = {name: await asyncio.to_thread(self._scan, name)}
        return self._rows[name]

    def _points(self, name: str, rows: Sequence[bytes]) -> list[Any]:
        return [_point(row, self._shapes[name]) for row in rows]

    def _scan(self, name: str) -> dict[PointId, bytes]:
        """Read all rows; the latest row of a point wins, as in local mode."""
        rows: dict[Any, bytes] = {}
        damaged = 0
        path = self._folder / "collection" / name / "storage.sqlite"
        uri = f"{path.resolve().as_uri()}?mode=rw"  # never create the file
        try:
            # SQLite rolls back the write of a killed process.
            opening = sqlite3.connect(uri, uri=True, timeout=LOCKED_SECONDS)
            with contextlib.closing(opening) as storage:
                for (row,) in storage.execute("SELECT point FROM points ORDER BY rowid DESC"):
                    try:
                        with contained():
                            rows.setdefault(_point(row, self._shapes[name]).id, row)
                    except QdrantMcpError:
                        damaged += 1
        except sqlite3.DatabaseError:
            damaged += 1  # the rest of the file is unreadable
        self.unreadable[name] = damaged
        return rows


@contextlib.asynccontextmanager
async def import_due(folder: Path) -> AsyncIterator[bool]:
    """Yield True if the folder has local-mode collections that are not imported yet.

    A lock lets one process import; the others wait here and then find the import done.
    """
    if not (folder / META).is_file() or not _has_more(folder):
        yield False
        return
    async with AsyncFileLock(folder / "imported.lock", mode=0o600, poll_interval=_POLL_SECONDS):
        yield _has_more(folder)


def _has_more(folder: Path) -> bool:
    """True if a collection is neither imported nor refused, or if that is unknown."""
    try:
        names = json.loads((folder / META).read_text("utf-8"))["collections"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return True
    states = _states(folder)
    return any(states.get(name) not in ("done", "refused") for name in names)


def _states(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / JOURNAL).read_text("utf-8"))
        return {str(name): str(state) for name, state in found.items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def _shapes(meta: Path) -> dict[str, Shape]:
    damaged = f"The {META} of local mode cannot be read: it is damaged."
    with contained(lambda _: EngineFailure(damaged)):
        found = json.loads(meta.read_text("utf-8"))["collections"]
        return {str(name): _shape(config) for name, config in found.items()}


def _shape(config: Mapping[str, Any]) -> Shape:
    vectors, sparse = config.get("vectors") or {}, config.get("sparse_vectors") or {}
    named = {"": vectors} if isinstance(vectors.get("size"), int) else vectors
    dense = {name: models.VectorParams.model_validate(one) for name, one in named.items()}
    words = {name: models.SparseVectorParams.model_validate(one) for name, one in sparse.items()}
    return Shape(dense, words, config.get("metadata") or {}, {})


def _point(row: bytes, shape: Shape) -> models.PointStruct:
    """The point of a row, validated like a point to store, with a normalised id.

    Damage raises any exception.
    """
    found = _Reader(io.BytesIO(row)).load()
    if not isinstance(found, models.PointStruct):
        raise pickle.UnpicklingError("not a point")
    point = found.id if isinstance(found.id, int) else str(UUID(str(found.id)))
    vectors, payload = plain_vectors(found.vector), plain_payload(found.payload or {})
    check_points([(point, vectors, payload)], shape.declared())
    return models.PointStruct(id=point, vector=vectors, payload=payload)
