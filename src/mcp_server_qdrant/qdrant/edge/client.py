"""The embedded engine behind qdrant-client's async interface: no server, nothing to install.

It has the methods of `AsyncQdrantClient` that this product uses, with the same result types, and
the search questions of `qdrant/engine.py`. Arguments that only a server needs (`wait`, `exact`,
consistency) are ignored. Errors are those of `mcp_server_qdrant.core.errors`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

from filelock import FileLock
from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.qdrant.edge import plain
from mcp_server_qdrant.qdrant.edge.check import plain_payload
from mcp_server_qdrant.qdrant.edge.embedded import Embedded
from mcp_server_qdrant.qdrant.edge.hold import hold_soon
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from mcp_server_qdrant.qdrant.engine import Ask, Corpus
from mcp_server_qdrant.qdrant.plain_reads import CALLS

DEFAULT_TIMEOUT = 60.0
COPY_SECONDS = 3600.0  # for a whole collection
_BATCH = 16  # points converted between two turns of the event loop, and written together


class EdgeClient(AsyncQdrantBase):
    """A client of the collections in a local folder, for any event loop of the process."""

    def __init__(self, engine: Embedded, timeout: float, *, lock: FileLock | None = None) -> None:
        """`timeout`: seconds per call. A client with the folder's `lock` closes the engine."""
        super().__init__()
        self._engine, self._timeout, self._lock = engine, timeout, lock

    @classmethod
    async def open(
        cls, path: Path, *, timeout: float = DEFAULT_TIMEOUT, options: EdgeOptions | None = None
    ) -> Self:
        """Open the folder, which no other process may have open. Raises EngineUnavailable.

        `timeout`: seconds per call.
        """
        lock = await hold_soon(path)
        try:
            return cls(await Embedded.open(path, options), timeout, lock=lock)
        except BaseException:
            lock.release()
            raise

    async def close(self, **_: Any) -> None:
        """Close the engine and release the lock, if this client opened the folder."""
        lock, self._lock = self._lock, None
        if lock is not None:
            try:
                await self._engine.close()
            finally:
                lock.release()

    async def _ask(self, operation: str, *arguments: Any) -> Any:
        return await self._engine.call(operation, *arguments, timeout=self._timeout)

    async def _change(self, operation: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Make a change, which is durable when the call returns."""
        limit = self._timeout if timeout is None else timeout
        return await self._engine.call(operation, *arguments, timeout=limit, changes=True)

    # Collections

    async def get_collections(self, **_: Any) -> models.CollectionsResponse:
        """All names."""
        names = await self._ask("collections")
        return models.CollectionsResponse(
            collections=[models.CollectionDescription(name=name) for name in names]
        )

    async def get_aliases(self, **_: Any) -> models.CollectionsAliasesResponse:
        """None: collections have one name here."""
        return models.CollectionsAliasesResponse(aliases=[])

    async def collection_exists(self, collection_name: str, **_: Any) -> bool:
        """True if there is such a collection."""
        return collection_name in await self._ask("collections")

    async def get_collection(self, collection_name: str, **_: Any) -> models.CollectionInfo:
        """Parameters, metadata, payload indexes, and the exact number of points."""
        return plain.collection_info(await self._ask("info", collection_name))

    async def create_collection(
        self,
        collection_name: str,
        vectors_config: models.VectorParams | Mapping[str, models.VectorParams] | None = None,
        sparse_vectors_config: Mapping[str, models.SparseVectorParams] | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> bool:
        """Create a collection. Raises RequestError if it exists."""
        described = plain.sidecar(vectors_config, sparse_vectors_config, metadata)
        await self._change("create", collection_name, described)
        return True

    async def create_described(self, collection_name: str, described: Mapping[str, Any]) -> None:
        """Create a collection from another one's description, with its indexes."""
        made = deepcopy(dict(described))
        await self._change("create", collection_name, made)
        await self._change("index", collection_name, made["indexes"])

    async def update_collection(
        self, collection_name: str, metadata: dict[str, Any] | None = None, **_: Any
    ) -> bool:
        """Merge into the collection's metadata; other arguments are ignored."""
        await self._change("update_metadata", collection_name, plain_payload(metadata or {}))
        return True

    async def delete_collection(self, collection_name: str, **_: Any) -> bool:
        """Delete a collection; False if there was none."""
        return bool(await self._change("drop", collection_name))

    async def accept_loss(self, collection_name: str) -> tuple[int, int]:
        """Stop reporting points that were lost on disk; (points lost, points left)."""
        lost, left = await self._change("accept_loss", collection_name)
        return lost, left

    async def save(self, collection_name: str, file: Path) -> int:
        """Write a collection's points to a new file; returns their number. See `points_file`."""
        return int(await self._change("save", collection_name, str(file), timeout=COPY_SECONDS))

    async def adopt(self, collection_name: str, staged: str, *, replace: bool) -> None:
        """Rename a collection that was filled under a name beginning with STAGED."""
        asked = (collection_name, staged, replace)
        await self._change("adopt", *asked, timeout=COPY_SECONDS)  # it waits for other writes

    async def put(self, collection_name: str, points: Sequence[Any]) -> None:
        """Insert points in the form of `points_file`: `(id, vectors, payload)`."""
        await self._change("upsert", collection_name, [list(points)], timeout=COPY_SECONDS)

    async def rebuild(self) -> dict[str, tuple[int, int]]:
        """Rebuild the store from the readable points; {collection: (points left, points lost)}."""
        return dict(await self._change("rebuild", timeout=COPY_SECONDS))

    async def rewrite(self) -> None:
        """Rewrite the store's files without deleted data. Other calls wait."""
        await self._change("rewrite", timeout=COPY_SECONDS)

    async def create_payload_indexes(self, collection_name: str, schemas: Mapping[str, Any]) -> Any:
        """Index payload fields, with one sync of the files for all of them."""
        return await self._change("index", collection_name, plain.plain(dict(schemas)))

    async def create_vector_name(
        self, collection_name: str, vector_name: str, vector_name_config: Any, **_: Any
    ) -> Any:
        """Add a vector to the schema; no effect if it exists. Points get it later."""
        declared = plain.plain(vector_name_config)
        kind = "sparse_vectors" if "sparse" in declared else "vectors"
        params = declared.get("sparse", declared.get("dense"))
        return await self._change("add_vector", collection_name, vector_name, kind, params)

    async def delete_vector_name(self, collection_name: str, vector_name: str, **_: Any) -> Any:
        """Remove a vector from the collection and all its points."""
        return await self._change("drop_vector", collection_name, vector_name)

    # Points

    async def upsert(
        self,
        collection_name: str,
        points: Any,
        update_filter: models.Filter | None = None,
        update_mode: models.UpdateMode | None = None,
        **_: Any,
    ) -> Any:
        """Insert or replace points (PointStruct); if one is invalid (InvalidPoint), none.

        `update_mode`, and `update_filter` on existing points, can exclude points.
        """
        mode = (update_mode or models.UpdateMode.UPSERT).value
        where = plain.plain(update_filter)
        return await self._change("upsert", collection_name, await _batches(points), mode, where)

    async def update_vectors(
        self,
        collection_name: str,
        points: Sequence[models.PointVectors],
        update_filter: models.Filter | None = None,
        **_: Any,
    ) -> Any:
        """Replace some vectors of existing points that match the filter."""
        batches, where = await _batches(points), plain.plain(update_filter)
        return await self._change("update_vectors", collection_name, batches, where)

    async def delete(self, collection_name: str, points_selector: Any, **_: Any) -> Any:
        """Delete points."""
        return await self._change("delete", collection_name, plain.plain_choice(points_selector))

    async def set_payload(
        self,
        collection_name: str,
        payload: dict[str, Any],
        points: Any,
        key: str | None = None,
        **_: Any,
    ) -> Any:
        """Merge into the payload; unknown ids are ignored."""
        fields, chosen = plain_payload(payload), plain.plain_choice(points)
        return await self._change("set_payload", collection_name, fields, chosen, key)

    async def delete_payload(
        self, collection_name: str, keys: Sequence[str], points: Any, **_: Any
    ) -> Any:
        """Remove keys from the payload."""
        chosen = plain.plain_choice(points)
        return await self._change("delete_payload", collection_name, list(keys), chosen)

    # Questions

    async def candidates(self, ask: Ask) -> Any:
        """The candidates of several collections in one call, as an `Answer`; see `Ask`."""
        return await self._ask("candidates", ask)

    async def idfs(self, corpus: Corpus) -> dict[int, float]:
        """The IDF of terms over collections of one space; see `Corpus`."""
        return dict(await self._ask("idfs", corpus))

    async def retrieve(self, *asked: Any, **how: Any) -> Any:
        """The points that exist, in the order of their ids."""
        return await self._read("retrieve", *asked, **how)

    async def scroll(self, *asked: Any, **how: Any) -> Any:
        """A page and the offset of the next one (None at the end, and for an ordered scroll)."""
        return await self._read("scroll", *asked, **how)

    async def count(self, *asked: Any, **how: Any) -> Any:
        """The number of points that match as a CountResult; always exact."""
        return await self._read("count", *asked, **how)

    async def facet(self, *asked: Any, **how: Any) -> Any:
        """The most frequent values of an indexed field as a FacetResponse, with exact counts."""
        return await self._read("facet", *asked, **how)

    async def _read(self, name: str, collection_name: str, *given: Any, **named: Any) -> Any:
        call = CALLS[name]
        body = plain.plain(call.body(given, named))
        return call.parse(await self._ask(name, collection_name, body))


async def _batches(points: Sequence[Any]) -> list[list[plain.Point]]:
    """Convert the points in small batches, letting the event loop run in between."""
    batches: list[list[plain.Point]] = []
    for start in range(0, len(points), _BATCH):
        some = points[start : start + _BATCH]
        batches.append([plain.plain_point(point) for point in some])
        await asyncio.sleep(0)
    return batches
