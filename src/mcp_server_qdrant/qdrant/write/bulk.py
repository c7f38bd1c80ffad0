"""Operations on whole collections: paging, adding vectors, metadata, copying."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import SPARSE_NAME, Document, Payload, PointId
from mcp_server_qdrant.core.dates import DATES
from mcp_server_qdrant.core.errors import EngineTooOld, QdrantMcpError, RequestError
from mcp_server_qdrant.core.notation import name_fault
from mcp_server_qdrant.qdrant import marks
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.plain import new_description
from mcp_server_qdrant.qdrant.engine import Point, WholeEngine
from mcp_server_qdrant.qdrant.errors import status_of
from mcp_server_qdrant.qdrant.filters import same_point
from mcp_server_qdrant.qdrant.legs import dense_vectors
from mcp_server_qdrant.qdrant.paging import pages
from mcp_server_qdrant.qdrant.texts import Texts
from mcp_server_qdrant.qdrant.write.points import DATE_INDEX, SERVER_INDEXES, Points

TOO_OLD = "This Qdrant server cannot add a vector to a collection: that needs 1.18 or newer."
_UNKNOWN_CALL = (404, 405, 501)  # statuses of a server that lacks the call


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of a collection in qdrant-client's models, and an upgrade's marks."""

    vectors: Mapping[str, models.VectorParams]
    sparse: Mapping[str, models.SparseVectorParams]
    metadata: Mapping[str, Any]
    indexes: Mapping[str, Any]

    @property
    def filling(self) -> frozenset[str]:
        """The vectors that not all points have yet."""
        return marks.filling(self.metadata)

    @property
    def keywords(self) -> str | None:
        """The vector for keyword search, even if unfinished; None if there is none."""
        idf = [n for n, p in sorted(self.sparse.items()) if p.modifier == models.Modifier.IDF]
        return SPARSE_NAME if SPARSE_NAME in self.sparse else next(iter(idf), None)

    def plan(self) -> dict[str, tuple[Any, ...]]:
        """Vector name -> the parameters that must be equal to copy points to another collection."""
        dense = {
            n: (p.size, p.distance, bool(p.multivector_config)) for n, p in self.vectors.items()
        }
        return dense | {name: (params.modifier,) for name, params in self.sparse.items()}

    def declared(self) -> dict[str, Any]:
        """The same in the embedded engine's form."""
        return {"name": "", **new_description(self.vectors, self.sparse, None)}


class Bulk(Points):
    """The collections of one engine and all their points. All calls raise our errors."""

    _client: WholeEngine

    # Collections

    async def names(self) -> list[str]:
        """All collections."""
        return sorted(found.name for found in (await self._client.get_collections()).collections)

    async def exists(self, name: str) -> bool:
        """True if a collection or an alias has this name."""
        return bool(await self._client.collection_exists(name))

    async def resolve_alias(self, name: str) -> str:
        """The collection of an alias; any other name as it is."""
        found = (await self._client.get_aliases()).aliases
        return {one.alias_name: one.collection_name for one in found}.get(name, name)

    async def accept_loss(self, name: str) -> tuple[int, int]:
        """Stop reporting lost points; see `EdgeClient.accept_loss`."""
        if not isinstance(self._client, EdgeClient):
            raise RequestError("Only the embedded engine detects points that are missing on disk.")
        return await self._client.accept_loss(name)

    async def shape(self, name: str) -> Shape:
        """The collection's parameters. Raises UnknownCollection."""
        info = await self._client.get_collection(name)
        sparse, metadata = info.config.params.sparse_vectors or {}, info.config.metadata or {}
        indexes = {
            field: index.params if index.params is not None else index.data_type
            for field, index in info.payload_schema.items()
        }
        return Shape(dense_vectors(info), dict(sparse), dict(metadata), indexes)

    async def create_like(self, name: str, shape: Shape) -> None:
        """Create an empty collection of that shape, with its payload indexes."""
        if fault := name_fault(name):
            raise RequestError(fault)
        vectors: Any = dict(shape.vectors)
        await self._client.create_collection(
            name,
            vectors_config=vectors[""] if list(vectors) == [""] else vectors,
            sparse_vectors_config=dict(shape.sparse) or None,
            metadata=dict(shape.metadata) or None,
        )
        await self._client.create_payload_indexes(name, shape.indexes)

    # Vectors

    async def begin_vector(self, name: str, vector: str, size: int | None) -> None:
        """Add a vector, dense with `size`, else sparse; it is not searched until `finish`.

        Raises EngineTooOld if the server cannot add vectors.
        """
        unfinished = (await self.shape(name)).filling
        await self._describe(name, {marks.FILLING_KEY: sorted(unfinished | {vector})})
        config: Any
        if size is None:
            sparse = models.SparseVectorConfig(modifier=models.Modifier.IDF)
            config = models.SparseVectorNameConfig(sparse=sparse)
        else:
            dense = models.DenseVectorConfig(size=size, distance=models.Distance.COSINE)
            config = models.DenseVectorNameConfig(dense=dense)
        try:
            await self._client.create_vector_name(name, vector, config)
        except QdrantMcpError as error:
            if status_of(error.__cause__) not in _UNKNOWN_CALL:
                raise
            await self._describe(name, {marks.FILLING_KEY: sorted(unfinished)})
            raise EngineTooOld(TOO_OLD) from error

    async def finish_vector(
        self, name: str, vector: str, model: Mapping[str, Any] | None = None
    ) -> None:
        """Make the vector searchable; `model` is the collection's new metadata on its model."""
        unfinished = (await self.shape(name)).filling
        if vector in unfinished or model:
            filling = sorted(unfinished - {vector})
            await self._describe(name, {**(model or {}), marks.FILLING_KEY: filling})

    async def create_missing_indexes(self, name: str, keys: Mapping[str, str]) -> list[str]:
        """Create the missing indexes of these keys (key -> type); returns their names.

        In strict mode also those that this server filters by. Raises RequestError for an unknown
        type.
        """
        types = {one.value: one for one in models.PayloadSchemaType}
        if unknown := [kind for kind in keys.values() if kind not in types]:
            raise RequestError(f"{unknown[0]} is not an index type: use {', '.join(types)}.")
        more = {key: types[kind] for key, kind in keys.items()}
        info = await self._client.get_collection(name)
        strict = info.config.strict_mode_config
        ours = {**self._indexes, **SERVER_INDEXES, **dict.fromkeys(DATES, DATE_INDEX)}
        wanted = {**(ours if strict and strict.enabled else {}), **more}
        there = {key: index.data_type for key, index in info.payload_schema.items()}
        missing = {
            key: kind
            for key, kind in wanted.items()
            if key not in there or more.get(key, there[key]) != there[key]
        }
        if missing:
            await self._client.create_payload_indexes(name, missing)
        return sorted(missing)

    async def record_import(self, name: str, imported: str) -> None:
        """Record where the collection was imported from."""
        await self._describe(name, {marks.IMPORTED_KEY: imported})

    async def set_description(self, name: str, text: str) -> None:
        """Set the collection's description; "" removes it."""
        await self._describe(name, {marks.DESCRIPTION_KEY: text})

    async def set_expiry(self, name: str, after: str) -> None:
        """Set when its texts expire by default, such as "90 days"; "" removes it."""
        await self._describe(name, {marks.EXPIRES_KEY: after})

    async def set_folders(self, name: str, folders: Iterable[Path]) -> None:
        """Set the folders that the collection belongs to."""
        await self._describe(name, marks.folder_metadata(folders))

    async def _describe(self, name: str, more: Mapping[str, Any]) -> None:
        known = (await self.shape(name)).metadata
        await self._client.update_collection(name, metadata={**known, **more})

    async def remove_vector(self, name: str, vector: str) -> None:
        """Remove a vector from the collection."""
        await self._client.delete_vector_name(name, vector)
        await self.finish_vector(name, vector)

    async def points_without(
        self, name: str, vector: str, size: int
    ) -> AsyncGenerator[list[Document]]:
        """The points without that vector in pages of that size."""
        if isinstance(self._content_fields, Texts):
            await self._content_fields.sample(self._client, name)
        async for page in pages(self._client, name, size, _without(vector), with_payload=True):
            yield [self._document(name, record) for record in page]

    async def count_without(self, name: str, vector: str) -> int:
        """The number of points without that vector."""
        return await self.count(name, _without(vector))

    # Points

    def pages(self, name: str, size: int, *, vectors: bool = False) -> AsyncGenerator[list[Point]]:
        """All points in pages, with payload and optionally vectors."""
        return pages(self._client, name, size, with_payload=True, with_vectors=vectors)

    async def documents(self, name: str, size: int) -> AsyncGenerator[list[Document]]:
        """All points as Documents, in pages."""
        async for page in self.pages(name, size):
            yield await self._documents(name, page)

    async def payloads(self, name: str, ids: Sequence[PointId]) -> dict[PointId, Payload]:
        """The payloads of these points by id; missing points are left out."""
        found = await self._client.retrieve(name, list(ids), with_payload=True)
        return {record.id: record.payload or {} for record in found}

    async def put(self, name: str, points: Sequence[Any]) -> None:
        """Write points as returned by `pages`, with their vectors."""
        structs = [
            models.PointStruct(
                id=one.id,
                vector={} if one.vector is None else one.vector,
                payload=one.payload or {},
            )
            for one in points
        ]
        await self._client.upsert(name, structs)


def unchanged_without(seen: Iterable[Document], vector: str) -> models.Filter:
    """A filter for points unchanged since they were read that still lack the vector."""
    same = [same_point(one) for one in seen]
    return models.Filter(must=[models.Filter(should=same), _without(vector)])


def _without(vector: str) -> models.Filter:
    return models.Filter(must_not=[models.HasVectorCondition(has_vector=vector)])
