"""What an engine is asked and what it answers; imports no client.

An engine is a Qdrant server, qdrant-client's local mode, or the embedded engine. `guard` is a
filter on everything that is read: no other point is found, or moves a score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from qdrant_client import models

    from mcp_server_qdrant.core.datatypes import Payload, PointId
    from mcp_server_qdrant.core.errors import QdrantMcpError

    Chosen = list[PointId] | models.Filter

Plain = Mapping[str, Any]  # REST-shaped
Shown = bool | Sequence[str]  # of a point: all, nothing, or these fields or vectors


@dataclass(frozen=True, slots=True)
class Leg:
    """A ranked list: the vector's name ("" when unnamed), the query, and a filter.

    The query is a list, or {"indices", "values"}. `scored`: its exact scores are wanted; those of a
    leg over tags are not.
    """

    vector: str
    query: Any
    where: Plain | None = None
    scored: bool = True


@dataclass(frozen=True, slots=True)
class Ask:
    """The best points by RRF over the legs, of collections that share a vector space.

    One collection on a server, any number on the embedded engine. `limit` is for all of them
    together, `fields` are those of the payload that are wanted: none means all. `corpus` are the
    collections over which the engine takes the idf of sparse legs: those that were searched, of
    which only some may be in this ask.
    """

    collections: tuple[str, ...]
    legs: tuple[Leg, ...]
    k: int
    limit: int
    fields: tuple[str, ...] = ()
    guard: Plain | None = None
    corpus: tuple[str, ...] = ()


@dataclass(slots=True)
class Found:
    """One candidate.

    `scores` has one for each scored leg: None where the point lacks the vector, or shares no term
    with the query. `current` says of a further part of a text whether it belongs to its present
    version: None of any other point, and where nobody can tell.
    """

    collection: str
    id: PointId
    rrf: float
    scores: list[float | None]
    payload: Payload
    current: bool | None = None


@dataclass(slots=True)
class Answer:
    """The candidates, by (-rrf, id), and a sentence on each damaged collection.

    `failed` are collections that could not be asked while the others were, as one that is gone. A
    fault of all of them is raised.
    """

    points: list[Found]
    damage: dict[str, str] = field(default_factory=dict)
    failed: dict[str, QdrantMcpError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Terms of a sparse vector whose idf over these collections together is asked for."""

    collections: tuple[str, ...]
    vector: str
    terms: tuple[int, ...]
    guard: Plain | None = None


@dataclass(slots=True)
class Point:
    """A point with the names that qdrant-client's models have; `vector` holds those asked for."""

    id: PointId
    score: float
    payload: Payload | None
    vector: Any


class Engine(Protocol):
    """The calls that are confined to a tenant's points where there are tenants.

    But for the first two they are those of qdrant-client, with the arguments that are used here;
    counts are exact. All raise our errors.
    """

    async def candidates(self, ask: Ask) -> Answer: ...
    async def idfs(self, corpus: Corpus) -> dict[int, float]: ...  # absent terms are left out

    async def get_collections(self) -> models.CollectionsResponse: ...
    async def collection_exists(self, collection_name: str) -> bool: ...
    async def get_collection(self, collection_name: str) -> models.CollectionInfo: ...
    async def create_collection(
        self,
        collection_name: str,
        *,
        vectors_config: Mapping[str, models.VectorParams] | models.VectorParams | None = None,
        sparse_vectors_config: Mapping[str, models.SparseVectorParams] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> bool: ...
    async def create_payload_indexes(self, collection: str, schemas: Mapping[str, Any]) -> None: ...

    async def retrieve(
        self,
        collection_name: str,
        ids: Sequence[PointId],
        *,
        with_payload: Shown = True,
        with_vectors: Shown = False,
    ) -> list[Point]: ...
    async def scroll(
        self,
        collection_name: str,
        scroll_filter: models.Filter | None = None,
        *,
        limit: int = 10,
        order_by: models.OrderBy | None = None,
        offset: PointId | None = None,
        with_payload: Shown = True,
        with_vectors: Shown = False,
    ) -> tuple[list[Point], PointId | None]: ...
    async def count(
        self, collection_name: str, count_filter: models.Filter | None = None
    ) -> models.CountResult: ...
    async def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: models.Filter | None = None,
        limit: int = 10,
    ) -> models.FacetResponse: ...

    async def upsert(
        self,
        collection_name: str,
        points: list[models.PointStruct],
        update_filter: models.Filter | None = None,
        update_mode: models.UpdateMode | None = None,
    ) -> Any: ...
    async def delete(self, collection_name: str, points_selector: Chosen) -> Any: ...
    async def set_payload(
        self, collection_name: str, payload: Payload, points: Chosen, key: str | None = None
    ) -> Any: ...
    async def delete_payload(
        self, collection_name: str, keys: Sequence[str], points: Chosen
    ) -> Any: ...


class WholeEngine(Engine, Protocol):
    """An engine with what no tenant asks: most of it concerns whole collections."""

    async def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: models.Filter | None = None,
        limit: int = 10,
        *,
        exact: bool = False,
    ) -> models.FacetResponse: ...
    async def update_collection(self, collection_name: str, *, metadata: Payload) -> Any: ...
    async def delete_collection(self, collection_name: str) -> bool: ...
    async def create_vector_name(
        self, collection_name: str, vector_name: str, vector_name_config: Any
    ) -> Any: ...
    async def delete_vector_name(self, collection_name: str, vector_name: str) -> Any: ...
    async def update_vectors(
        self,
        collection_name: str,
        points: Sequence[models.PointVectors],
        update_filter: models.Filter | None = None,
    ) -> Any: ...
    async def close(self) -> None: ...
