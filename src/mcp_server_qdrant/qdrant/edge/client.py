"""The embedded engine behind qdrant-client's async interface: no server, nothing to install.

The subset of `AsyncQdrantClient` this product uses, with the same signatures and result types.
Arguments that only mean something to a server (shards, replicas, consistency, ordering, wait)
are accepted and ignored. Errors are those of `mcp_server_qdrant.core.errors`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase
from qdrant_client.http.models.models import QueryResponse

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.hosting.link import Link
from mcp_server_qdrant.hosting.wire import pack
from mcp_server_qdrant.qdrant.edge import plain
from mcp_server_qdrant.qdrant.edge.check import plain_payload
from mcp_server_qdrant.qdrant.edge.wire import EdgeOptions, service

DEFAULT_TIMEOUT = 60.0
HOST = "mcp_server_qdrant.qdrant.edge.host"
_BLOB_POINTS = 16  # converted and pickled between two turns of the event loop, well under 1 ms
_HEAVY_POINTS = 8  # whose payloads, each as heavy as may be stored, take some milliseconds


class EdgeClient(AsyncQdrantBase):
    """Collections in a local folder, served by an engine host that other processes share."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    @classmethod
    async def open(
        cls, path: Path, *, timeout: float = DEFAULT_TIMEOUT, options: EdgeOptions | None = None
    ) -> Self:
        """Open the folder; the host is started when none runs. `timeout`: seconds per call."""
        link = Link(service(Path(path), options, module=HOST), timeout)
        await link.open()
        return cls(link)

    async def close(self, **kwargs: Any) -> None:  # noqa: ARG002
        """Leave the host; it ends shortly after its last client."""
        await self._link.close()

    async def _ask(self, operation: str, *arguments: Any, timeout: float | None = None) -> Any:
        return await self._link.call(operation, *arguments, timeout=timeout)

    # Collections

    async def get_collections(self, **kwargs: Any) -> models.CollectionsResponse:  # noqa: ARG002
        """All names."""
        names = await self._ask("collections")
        return models.CollectionsResponse(
            collections=[models.CollectionDescription(name=name) for name in names]
        )

    async def collection_exists(self, collection_name: str, **kwargs: Any) -> bool:  # noqa: ARG002
        """Whether there is such a collection."""
        return collection_name in await self._ask("collections")

    async def get_aliases(self, **kwargs: Any) -> models.CollectionsAliasesResponse:  # noqa: ARG002
        """There are none here."""
        return models.CollectionsAliasesResponse(aliases=[])

    async def get_collection(
        self,
        collection_name: str,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.CollectionInfo:
        """Parameters, metadata, payload indexes, and the exact number of points."""
        return plain.collection_info(await self._ask("info", collection_name))

    async def create_collection(
        self,
        collection_name: str,
        vectors_config: models.VectorParams | Mapping[str, models.VectorParams] | None = None,
        sparse_vectors_config: Mapping[str, models.SparseVectorParams] | None = None,
        timeout: float | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> bool:
        """Make a collection; RequestError when it exists."""
        made = plain.sidecar(vectors_config, sparse_vectors_config, metadata)
        await self._ask("create", collection_name, made, timeout=timeout)
        return True

    async def update_collection(
        self,
        collection_name: str,
        timeout: float | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> bool:
        """Merge into the collection's metadata; other changes mean nothing here."""
        merged = plain_payload(metadata or {})
        await self._ask("update_metadata", collection_name, merged, timeout=timeout)
        return True

    async def delete_collection(
        self,
        collection_name: str,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> bool:
        """Delete a collection; False when there was none."""
        return bool(await self._ask("drop", collection_name, timeout=timeout))

    async def accept_loss(self, collection_name: str) -> tuple[int, int | None]:
        """Go on without points that are missing on the disk: how many, and how many there are.

        A collection that has no data any more is forgotten (None).
        """
        lost, left = await self._ask("accept_loss", collection_name)
        return lost, left

    async def create_payload_index(
        self,
        collection_name: str,
        field_name: str,
        field_schema: Any = None,
        field_type: Any = None,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.UpdateResult:
        """Index a payload field; cheap while the collection is empty."""
        schema = plain.plain(field_schema if field_schema is not None else field_type)
        if schema is None:
            raise RequestError("An index needs a schema.")
        await self._ask("index", collection_name, field_name, schema, timeout=timeout)
        return done()

    async def create_vector_name(
        self,
        collection_name: str,
        vector_name: str,
        vector_name_config: Any,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.UpdateResult:
        """Add a vector, which no point has yet; without effect where it is there already."""
        declared = plain.plain(vector_name_config)
        kind = "sparse_vectors" if "sparse" in declared else "vectors"
        params = declared.get("sparse", declared.get("dense"))
        arguments = (collection_name, vector_name, kind, params)
        await self._ask("add_vector", *arguments, timeout=timeout)
        return done()

    async def delete_vector_name(
        self,
        collection_name: str,
        vector_name: str,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.UpdateResult:
        """Remove a vector from the collection and all its points."""
        await self._ask("drop_vector", collection_name, vector_name, timeout=timeout)
        return done()

    # Points

    async def upsert(
        self,
        collection_name: str,
        points: models.Batch | Sequence[models.PointStruct],
        update_filter: models.Filter | None = None,
        update_mode: models.UpdateMode | None = None,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.UpdateResult:
        """Insert or replace points, all or (InvalidPoint) none; durable when it returns."""
        rows = plain.points_of(points) if isinstance(points, models.Batch) else points
        blobs = await _blobs(rows)
        where, mode = _filter(update_filter), plain.plain(update_mode)
        await self._ask("upsert", collection_name, blobs, where, mode, timeout=timeout)
        return done()

    async def update_vectors(
        self,
        collection_name: str,
        points: Sequence[models.PointVectors],
        update_filter: models.Filter | None = None,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.UpdateResult:
        """Replace some vectors of points that exist."""
        blobs, where = await _blobs(points), _filter(update_filter)
        await self._ask("update_vectors", collection_name, blobs, where, timeout=timeout)
        return done()

    async def delete(
        self,
        collection_name: str,
        points_selector: Any,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.UpdateResult:
        """Delete points."""
        chosen = plain.plain_selector(points_selector)
        await self._ask("delete", collection_name, chosen, timeout=timeout)
        return done()

    async def set_payload(
        self,
        collection_name: str,
        payload: dict[str, Any],
        points: Any,
        key: str | None = None,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.UpdateResult:
        """Merge into the payload; ids that do not exist are passed over."""
        fields, chosen = plain_payload(payload), plain.plain_selector(points)
        await self._ask("set_payload", collection_name, fields, chosen, key, timeout=timeout)
        return done()

    async def delete_payload(
        self,
        collection_name: str,
        keys: Sequence[str],
        points: Any,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.UpdateResult:
        """Remove keys from the payload."""
        chosen = plain.plain_selector(points)
        await self._ask("delete_payload", collection_name, list(keys), chosen, timeout=timeout)
        return done()

    # Questions

    async def query_points(
        self,
        collection_name: str,
        query: Any = None,
        using: str | None = None,
        prefetch: models.Prefetch | list[models.Prefetch] | None = None,
        query_filter: models.Filter | None = None,
        search_params: models.SearchParams | None = None,
        limit: int = 10,
        offset: int | None = None,
        with_payload: Any = True,  # noqa: FBT002
        with_vectors: Any = False,  # noqa: FBT002
        score_threshold: float | None = None,
        lookup_from: Any = None,
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> QueryResponse:
        """The best points; RequestError for an unknown vector name or a wrong size."""
        request = plain.QueryParts(
            *(query, using, prefetch, query_filter, search_params),
            *(limit, offset, score_threshold, with_payload, with_vectors, lookup_from),
        )
        plain_requests = [plain.plain_request(request)]
        (rows,) = await self._ask("query", collection_name, plain_requests, timeout=timeout)
        return plain.response(rows)

    async def hybrid(
        self, question: str, *arguments: Any, guard: Any = None
    ) -> list[tuple[bool, Any]]:
        """What a search asks of many collections in one trip; see `hybrid`.

        No call of a Qdrant server does it; here a trip for each would cost more than the search.
        `guard` is a plain filter on all of it.
        """
        answers: list[tuple[bool, Any]] = await self._ask(question, guard, *arguments)
        return answers

    async def query_batch_points(
        self,
        collection_name: str,
        requests: Sequence[models.QueryRequest],
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> list[QueryResponse]:
        """One answer per request, in one trip."""
        filters: dict[int, Any] = {}
        plain_requests = [plain.plain_request(request, filters) for request in requests]
        found = await self._ask("query", collection_name, plain_requests, timeout=timeout)
        return [plain.response(rows) for rows in found]

    async def retrieve(
        self,
        collection_name: str,
        ids: Sequence[Any],
        with_payload: Any = True,  # noqa: FBT002
        with_vectors: Any = False,  # noqa: FBT002
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> list[models.Record]:
        """The points that exist."""
        wanted = [plain.plain_id(point_id) for point_id in ids]
        shown = plain.shown(with_payload, with_vectors)
        size = _HEAVY_POINTS if shown[0] else max(len(wanted), 1)
        answers = await asyncio.gather(
            *(
                self._ask("retrieve", collection_name, some, *shown, timeout=timeout)
                for some in (wanted[i : i + size] for i in range(0, len(wanted), size))
            )
        )
        found = {record.id: record for rows in answers for record in plain.records(rows)}
        return list(found.values())

    async def scroll(
        self,
        collection_name: str,
        scroll_filter: models.Filter | None = None,
        limit: int = 10,
        order_by: Any = None,
        offset: Any = None,
        with_payload: Any = True,  # noqa: FBT002
        with_vectors: Any = False,  # noqa: FBT002
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[list[models.Record], Any]:
        """One page, and the offset of the next (None at the end, and when ordered)."""
        rows, following = await self._ask(
            *("scroll", collection_name, _filter(scroll_filter), limit, plain.plain(order_by)),
            *(plain.plain_id(offset), plain.shown(with_payload, with_vectors)),
            timeout=timeout,
        )
        return plain.records(rows), following

    async def count(
        self,
        collection_name: str,
        count_filter: models.Filter | None = None,
        exact: bool = True,  # noqa: FBT001, FBT002
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.CountResult:
        """How many points match; always exact."""
        arguments = (collection_name, _filter(count_filter), exact)
        found = await self._ask("count", *arguments, timeout=timeout)
        return models.CountResult(count=found)

    async def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: models.Filter | None = None,
        limit: int = 10,
        exact: bool = False,  # noqa: ARG002, FBT001, FBT002
        timeout: float | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> models.FacetResponse:
        """The most frequent values of a field, with their exact counts."""
        arguments = (collection_name, key, _filter(facet_filter), limit)
        found = await self._ask("facet", *arguments, timeout=timeout)
        return models.FacetResponse(
            hits=[models.FacetValueHit(value=value, count=count) for value, count in found]
        )


def done() -> models.UpdateResult:
    """Every write is complete when its call returns."""
    return models.UpdateResult(operation_id=None, status=models.UpdateStatus.COMPLETED)


def _filter(given: models.Filter | None) -> Any:
    return None if given is None else plain.plain(given)


async def _blobs(points: Sequence[Any]) -> list[bytes]:
    """The points as pickled plain lists, made in small steps: the event loop goes on."""
    blobs = []
    for start in range(0, len(points), _BLOB_POINTS):
        blobs.append(pack(plain.plain_points(points[start : start + _BLOB_POINTS])))
        await asyncio.sleep(0)
    return blobs
