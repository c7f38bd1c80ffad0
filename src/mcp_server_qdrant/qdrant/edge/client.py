"""The embedded engine behind qdrant-client's async interface: no server, nothing to install.

The subset of `AsyncQdrantClient` that this product uses, with the same result types, and the
questions of a search (`qdrant/engine.py`). Arguments that only mean something to a server (`wait`,
`exact`, consistency) are accepted and ignored. Errors are those of `mcp_server_qdrant.core.errors`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.hosting.link import Link
from mcp_server_qdrant.hosting.wire import pack
from mcp_server_qdrant.qdrant.edge import plain
from mcp_server_qdrant.qdrant.edge.check import plain_payload
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from mcp_server_qdrant.qdrant.edge.wire import service
from mcp_server_qdrant.qdrant.engine import Answer, Ask, Corpus
from mcp_server_qdrant.qdrant.plain_reads import CALLS

DEFAULT_TIMEOUT = 60.0
COPY_SECONDS = 3600.0  # for a whole collection
_BLOB_POINTS = 16  # converted between two turns of the event loop, and written at once


class EdgeClient(AsyncQdrantBase):
    """Collections in a local folder, served by an engine host that other processes share."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        options: EdgeOptions | None = None,
        link: Link | None = None,
    ) -> Self:
        """Open the folder, over a `link` to it if there is one; the host is started when none runs.

        `timeout`: seconds per call.
        """
        link = link or Link(service(Path(path), options), timeout)
        await link.open()
        return cls(link)

    async def close(self, **_: Any) -> None:
        """Leave the host; it ends shortly after its last client."""
        await self._link.close()

    async def _ask(self, operation: str, *arguments: Any) -> Any:
        return await self._link.call(operation, *arguments)

    async def _change(self, operation: str, *arguments: Any, timeout: float | None = None) -> Any:
        """A change is durable when its call returns."""
        return await self._link.call(operation, *arguments, timeout=timeout, changes=True)

    # Collections

    async def get_collections(self, **_: Any) -> models.CollectionsResponse:
        """All names."""
        names = await self._ask("collections")
        return models.CollectionsResponse(
            collections=[models.CollectionDescription(name=name) for name in names]
        )

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
        """Make a collection; RequestError when it exists."""
        made = plain.sidecar(vectors_config, sparse_vectors_config, metadata)
        await self._change("create", collection_name, made)
        return True

    async def create_described(self, collection_name: str, described: Mapping[str, Any]) -> None:
        """Make a collection from the description of another one, with its indexes."""
        await self._change("create", collection_name, dict(described))
        await self._change("index", collection_name, described["indexes"])

    async def update_collection(
        self, collection_name: str, metadata: dict[str, Any] | None = None, **_: Any
    ) -> bool:
        """Merge into the collection's metadata; other changes mean nothing here."""
        await self._change("update_metadata", collection_name, plain_payload(metadata or {}))
        return True

    async def delete_collection(self, collection_name: str, **_: Any) -> bool:
        """Delete a collection; False when there was none."""
        return bool(await self._change("drop", collection_name))

    async def accept_loss(self, collection_name: str) -> tuple[int, int]:
        """Go on without points that are missing on the disk: how many, and how many there are."""
        lost, left = await self._change("accept_loss", collection_name)
        return lost, left

    async def save(self, collection_name: str, file: Path) -> int:
        """Write a collection's points to a new file; their number. See `points_file`."""
        return int(await self._change("save", collection_name, str(file), timeout=COPY_SECONDS))

    async def adopt(self, collection_name: str, staged: str, *, replace: bool) -> None:
        """Give a collection, which was filled under a name that begins with STAGED, its own."""
        asked = (collection_name, staged, replace)
        await self._change("adopt", *asked, timeout=COPY_SECONDS)  # it waits for other writes

    async def put(self, collection_name: str, points: Sequence[Any]) -> None:
        """Insert points as `points_file` has them: `(id, vectors, payload)`."""
        await self._change("upsert", collection_name, [pack(list(points))], timeout=COPY_SECONDS)

    async def rebuild(self) -> dict[str, tuple[int, int]]:
        """Rebuild the store from what can be read: of each collection the points left, and lost."""
        return dict(await self._change("rebuild", timeout=COPY_SECONDS))

    async def rewrite(self) -> None:
        """Write the store anew, without what was deleted. Other calls wait."""
        await self._change("rewrite", timeout=COPY_SECONDS)

    async def create_payload_indexes(self, collection_name: str, schemas: Mapping[str, Any]) -> Any:
        """Index payload fields. The files are made durable once, not for each field."""
        return await self._change("index", collection_name, plain.plain(dict(schemas)))

    async def create_vector_name(
        self, collection_name: str, vector_name: str, vector_name_config: Any, **_: Any
    ) -> Any:
        """Add a vector, which no point has yet; without effect where it is there already."""
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
        """Insert or replace points (PointStruct), all or (InvalidPoint) none.

        The mode and the filter, which existing points must match, leave some of them out.
        """
        mode = (update_mode or models.UpdateMode.UPSERT).value
        where = plain.plain(update_filter)
        return await self._change("upsert", collection_name, await _blobs(points), mode, where)

    async def update_vectors(
        self,
        collection_name: str,
        points: Sequence[models.PointVectors],
        update_filter: models.Filter | None = None,
        **_: Any,
    ) -> Any:
        """Replace some vectors of points that exist, of those that match the filter."""
        blobs, where = await _blobs(points), plain.plain(update_filter)
        return await self._change("update_vectors", collection_name, blobs, where)

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
        """Merge into the payload; ids that do not exist are passed over."""
        fields, chosen = plain_payload(payload), plain.plain_choice(points)
        return await self._change("set_payload", collection_name, fields, chosen, key)

    async def delete_payload(
        self, collection_name: str, keys: Sequence[str], points: Any, **_: Any
    ) -> Any:
        """Remove keys from the payload."""
        chosen = plain.plain_choice(points)
        return await self._change("delete_payload", collection_name, list(keys), chosen)

    # Questions

    async def candidates(self, ask: Ask) -> Answer:
        """The candidates of any number of collections, in one trip; see `Ask`."""
        answer: Answer = await self._ask("candidates", ask)
        return answer

    async def idfs(self, corpus: Corpus) -> dict[int, float]:
        """The idf of terms over collections of one space; see `Corpus`."""
        return dict(await self._ask("idfs", corpus))

    async def retrieve(self, *asked: Any, **how: Any) -> list[Any]:
        """The points that exist, in the order of their ids."""
        points: list[Any] = await self._read("retrieve", *asked, **how)
        return points

    async def scroll(self, *asked: Any, **how: Any) -> tuple[list[Any], Any]:
        """One page, and the offset of the next (None at the end, and when ordered)."""
        points, following = await self._read("scroll", *asked, **how)
        return points, following

    async def count(self, *asked: Any, **how: Any) -> models.CountResult:
        """The number of points that match; always exact."""
        found: models.CountResult = await self._read("count", *asked, **how)
        return found

    async def facet(self, *asked: Any, **how: Any) -> models.FacetResponse:
        """The most frequent values of an indexed field, with their exact counts."""
        found: models.FacetResponse = await self._read("facet", *asked, **how)
        return found

    async def _read(self, name: str, collection_name: str, *given: Any, **named: Any) -> Any:
        call = CALLS[name]
        body = plain.plain(call.body(given, named))
        return call.read(await self._ask(name, collection_name, body))


async def _blobs(points: Sequence[Any]) -> list[bytes]:
    """The points as pickled plain lists, made in small steps: the event loop goes on."""
    blobs: list[bytes] = []
    for start in range(0, len(points), _BLOB_POINTS):
        some = points[start : start + _BLOB_POINTS]
        blobs.append(pack([plain.plain_point(point) for point in some]))
        await asyncio.sleep(0)
    return blobs
