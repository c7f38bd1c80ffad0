"""The interface of engines, with their requests and results; imports no client.

An engine is a Qdrant server, qdrant-client's local mode, or the embedded engine. `guard` is a
filter on everything that is read: other points are never found, nor do they influence a score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from qdrant_client import models

    from mcp_server_qdrant.core.datatypes import Payload, PointId
    from mcp_server_qdrant.core.errors import QdrantMcpError

    Chosen = Sequence[PointId] | models.Filter  # points by their ids, or by a filter

Plain = Mapping[str, Any]  # REST-shaped
Shown = bool | Sequence[str]  # parts of a point: all, none, or these fields or vectors


@dataclass(frozen=True, slots=True)
class Leg:
    """A ranked list: the vector's name ("" when unnamed), the query, and a filter.

    The query is a list, or {"indices", "values"}. `scored`: exact scores are computed; not for a
    leg over tags. `worth` (share, most): the weight of the leg in a point's worth, and the highest
    possible score on it.
    """

    vector: str
    query: Any
    where: Plain | None = None
    scored: bool = True
    worth: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Ask:
    """The best points by RRF over the legs, of collections that share a vector space.

    A server takes one collection, the embedded engine any number. `limit` is for all of them
    together; `fields` are the payload fields to return, empty for all. `corpus` are the collections
    that the IDF of sparse legs is computed over: all that the search covers, of which this ask may
    have only some. `kept`: return at most this many, those of the highest worth; 0: no limit.
    """

    collections: tuple[str, ...]
    legs: tuple[Leg, ...]
    k: int
    limit: int
    fields: tuple[str, ...] = ()
    guard: Plain | None = None
    corpus: tuple[str, ...] = ()
    keep_best: int = 0


@dataclass(slots=True)
class Found:
    """One candidate.

    `scores` has a score per scored leg: None if the point lacks the vector or shares no term with
    the query. `current`: whether a further part belongs to the current version of its text; None
    for other points, and if that is unknown.
    """

    collection: str
    id: PointId
    rrf: float
    scores: list[float | None]
    payload: Payload
    current: bool | None = None


@dataclass(slots=True)
class Candidates:
    """The candidates, by (-rrf, id), and a sentence on each damaged collection.

    `failed` are the collections that failed while others answered, such as deleted ones. If all
    fail, the error is raised.
    """

    points: list[Found]
    damage: dict[str, str] = field(default_factory=dict)
    failed: dict[str, QdrantMcpError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Corpus:
    """A request for the IDF of terms of a sparse vector over these collections together."""

    collections: tuple[str, ...]
    vector: str
    terms: tuple[int, ...]
    guard: Plain | None = None


@dataclass(slots=True)
class Point:
    """A point with the attributes of qdrant-client's models; `vector` has the requested ones."""

    id: PointId
    score: float
    payload: Payload | None
    vector: Any


class Engine(Protocol):
    """The calls of an engine; with tenants, restricted to the tenant's points.

    All but the first two are calls of qdrant-client, with the arguments used here; counts are
    exact. All raise our errors.
    """

    async def candidates(self, ask: Ask) -> Candidates: ...
    async def idfs(self, corpus: Corpus) -> dict[int, float]: ...  # absent terms are left out

    async def get_collections(self) -> models.CollectionsResponse: ...
    async def get_aliases(self) -> models.CollectionsAliasesResponse: ...
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
        *,
        exact: bool = False,
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
    """An engine without tenants: it also has calls on whole collections."""

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
