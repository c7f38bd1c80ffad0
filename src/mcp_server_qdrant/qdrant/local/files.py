"""A folder of qdrant-client's local mode, read and not written to.

meta.json                           collection -> its parameters
collection/<name>/storage.sqlite    a row per point, pickled

The rows are unpickled with nothing but the classes that local mode uses; a row that is damaged, or
holds anything else, is counted and left out.
"""

import asyncio
import io
import itertools
import json
import pickle
import sqlite3
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from qdrant_client.http.models import models

from mcp_server_qdrant.core.datatypes import Payload, PointId
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
LOCKED_SECONDS = 30.0  # another process may be writing
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
        """Refuse every class by which a row could run code."""
        if module == "qdrant_client.http.models.models":
            found = getattr(models, name)
            if isinstance(found, type) and issubclass(found, BaseModel | Enum):
                return found
        elif (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not of local mode")


def is_local_mode(folder: Path) -> bool:
    """True for a folder that local mode wrote."""
    return (folder / META).is_file()


class LocalFiles:
    """The collections of such a folder, which may be in use meanwhile.

    `unreadable` counts the points left out by collection, once `count` was asked for.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shapes = _shapes(folder / META)
        self._rows: dict[str, dict[PointId, int]] = {}
        self._open: dict[str, sqlite3.Connection] = {}
        self.unreadable: dict[str, int] = {}

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
        if name not in self._rows:
            self._rows[name] = await asyncio.to_thread(self._scan, name)
        return len(self._rows[name])

    async def page(
        self, name: str, limit: int, offset: PointId | None
    ) -> tuple[dict[PointId, Payload], PointId | None]:
        """Payloads by id, and where the next page begins (a number of points here)."""
        count, first = await self.count(name), int(offset or 0)
        ids = list(itertools.islice(self._rows[name], first, first + limit))
        return await self.payloads(name, ids), first + limit if first + limit < count else None

    async def payloads(self, name: str, ids: Sequence[PointId]) -> dict[PointId, Payload]:
        """The payloads of those that exist."""
        return {point.id: point.payload for point in await self.fetch(name, ids)}

    async def fetch(
        self,
        name: str,
        ids: Sequence[PointId],
        *,
        vectors: bool = False,  # noqa: ARG002 - they are in the same row
    ) -> list[Any]:
        """Whole points."""
        await self.count(name)
        rows = [row for point in ids if (row := self._rows[name].get(point)) is not None]
        return await asyncio.to_thread(self._read, name, rows)

    def _read(self, name: str, rows: Sequence[int]) -> list[Any]:
        shape, storage = self._shapes[name], self._storage(name)
        question = "SELECT point FROM points WHERE rowid = ?"
        try:
            found = [storage.execute(question, (row,)).fetchone() for row in rows]
        except sqlite3.DatabaseError as error:
            raise EngineFailure(f"The local mode's file of {name!r} cannot be read.") from error
        return [_point(row[0], shape) for row in found if row is not None]  # None: replaced now

    def _scan(self, name: str) -> dict[PointId, int]:
        """Id -> row; the latest of several rows, as local mode has it."""
        rows: dict[Any, int] = {}
        damaged = 0
        try:
            found = self._storage(name).execute("SELECT rowid, point FROM points ORDER BY 1 DESC")
            for number, row in found:
                try:
                    with contained():
                        rows.setdefault(_point(row, self._shapes[name]).id, number)
                except QdrantMcpError:
                    damaged += 1
        except sqlite3.DatabaseError:
            damaged += 1  # nothing is known of the rest of the file
        self.unreadable[name] = damaged
        return rows

    def _storage(self, name: str) -> sqlite3.Connection:
        """The collection's rows; SQLite itself undoes a write whose process was killed."""
        if name not in self._open:
            path = self._folder / "collection" / name / "storage.sqlite"
            self._open[name] = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=rw",  # what is not there is not made
                uri=True,
                timeout=LOCKED_SECONDS,
                check_same_thread=False,
            )
        return self._open[name]

    async def close(self) -> None:
        """Let the files go."""
        for connection in self._open.values():
            connection.close()


def _shapes(meta: Path) -> dict[str, Shape]:
    damaged = f"The {META} of local mode cannot be read: it is damaged."
    with contained(lambda _: EngineFailure(damaged)):
        found = json.loads(meta.read_text("utf-8"))["collections"]
        return {str(name): _shape(config) for name, config in found.items()}


def _shape(config: Mapping[str, Any]) -> Shape:
    vectors, sparse = config.get("vectors") or {}, config.get("sparse_vectors") or {}
    named = {"": vectors} if isinstance(vectors.get("size"), int) else vectors
    return Shape(
        {name: models.VectorParams.model_validate(params) for name, params in named.items()},
        {name: models.SparseVectorParams.model_validate(params) for name, params in sparse.items()},
        config.get("metadata") or {},
        {},
    )


def _point(row: bytes, shape: Shape) -> models.PointStruct:
    """The point of a row, checked as if it were to be stored. Damage raises any exception.

    Its id is in its one spelling.
    """
    found = _Reader(io.BytesIO(row)).load()
    if not isinstance(found, models.PointStruct):
        raise pickle.UnpicklingError("not a point")
    point = found.id if isinstance(found.id, int) else str(UUID(str(found.id)))
    vectors, payload = plain_vectors(found.vector), plain_payload(found.payload or {})
    check_points([(point, vectors, payload)], shape.declared())
    return models.PointStruct(id=point, vector=vectors, payload=payload)
