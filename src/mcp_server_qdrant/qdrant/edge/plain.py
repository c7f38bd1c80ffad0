"""qdrant_client models <-> the plain data that travels to the engine host."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from pydantic import BaseModel, PrivateAttr, TypeAdapter
from qdrant_client import models
from qdrant_client.http.models.models import QueryResponse

from mcp_server_qdrant.core.errors import InvalidPoint, RequestError
from mcp_server_qdrant.qdrant.edge.check import plain_payload

_SCALARS = frozenset({str, int, float, bool, type(None)})

Point = tuple[int | str, Any, dict[str, Any] | None]


class Beginnings(models.PayloadSelectorInclude):
    """The values at some paths; of their texts the embedded engine sends the beginning only."""

    _longest: int = PrivateAttr(0)

    @classmethod
    def of(cls, paths: Iterable[str], longest: int) -> "Beginnings":
        """Of `longest` characters."""
        made = cls(include=list(paths))
        made._longest = longest
        return made

    @property
    def longest(self) -> int:
        """Characters of a text."""
        return self._longest


def plain(value: Any) -> Any:
    """A model, or whatever holds models, as REST-shaped data without empty fields."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, BaseModel):
        fields = value.__dict__
        return {
            alias: plain(item)
            for name, alias in _aliases(type(value))
            if (item := fields[name]) is not None
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


@cache
def _aliases(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    """A model's fields with the names they have in REST."""
    return tuple((name, field.alias or name) for name, field in model.model_fields.items())


def plain_id(point_id: Any) -> int | str:
    """An id; the check of its value comes later."""
    return str(point_id) if isinstance(point_id, UUID) else point_id


def plain_vector(vector: Any) -> Any:
    """One vector: a list (of lists), or sparse as indices and values."""
    if isinstance(vector, models.SparseVector):
        return {"indices": vector.indices, "values": vector.values}
    if isinstance(vector, BaseModel):
        raise RequestError(f"The embedded engine embeds no {type(vector).__name__}.")
    return vector.tolist() if hasattr(vector, "tolist") else vector


def plain_vectors(vectors: Any) -> Any:
    """All vectors of a point."""
    if isinstance(vectors, Mapping):
        return {name: plain_vector(vector) for name, vector in vectors.items()}
    return plain_vector(vectors)


def plain_points(points: Iterable[Any]) -> list[Point]:
    """PointStruct or PointVectors as `(id, vectors, payload)`."""
    return [
        (
            plain_id(point.id),
            plain_vectors(point.vector),
            None
            if (payload := getattr(point, "payload", None)) is None
            else plain_payload(payload),
        )
        for point in points
    ]


def points_of(batch: models.Batch) -> list[models.PointStruct]:
    """A batch, column by column, as points."""
    payloads: Sequence[Any] = batch.payloads or [None] * len(batch.ids)
    columns = batch.vectors
    rows: list[Any] = (
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if isinstance(columns, dict)
        else list(columns)
    )
    if not len(batch.ids) == len(rows) == len(payloads):
        raise InvalidPoint("The batch's ids, vectors and payloads differ in number.")
    return [
        models.PointStruct.model_construct(id=point_id, vector=row, payload=payload)
        for point_id, row, payload in zip(batch.ids, rows, payloads, strict=True)
    ]


def plain_selector(selector: Any) -> dict[str, Any]:
    """Which points: `{"points": ids}` or `{"filter": filter}`."""
    if isinstance(selector, models.Filter):
        return {"filter": plain(selector)}
    if isinstance(selector, models.FilterSelector):
        return {"filter": plain(selector.filter)}
    if isinstance(selector, models.PointIdsList):
        selector = selector.points
    if not isinstance(selector, Sequence) or isinstance(selector, str):
        raise RequestError("Points are selected by a list of ids or by a filter.")
    return {"points": [plain_id(point_id) for point_id in selector]}


def plain_query(query: Any) -> Any:
    """What scores: a vector or point id as it is, every other query REST-shaped."""
    if isinstance(query, models.NearestQuery):
        nearest = plain_query(query.nearest)
        return nearest if query.mmr is None else {"nearest": nearest, "mmr": plain(query.mmr)}
    if isinstance(query, models.SparseVector):
        return {"indices": query.indices, "values": query.values}
    if isinstance(query, models.Document | models.Image | models.InferenceObject):
        raise RequestError(f"The embedded engine embeds no {type(query).__name__}.")
    if isinstance(query, models.FormulaQuery):
        raise RequestError("The embedded engine has no formula query; a Qdrant server has.")
    if isinstance(query, BaseModel):
        return plain(query)
    if hasattr(query, "tolist"):
        return query.tolist()
    return plain_id(query)


class QueryParts(NamedTuple):
    """The arguments of one query, named as in QueryRequest; checked by the host."""

    query: Any
    using: str | None
    prefetch: Any
    filter: Any
    params: Any
    limit: int | None
    offset: int | None
    score_threshold: float | None
    with_payload: Any
    with_vector: Any
    lookup_from: Any = None


def plain_request(request: Any, filters: dict[int, Any] | None = None) -> dict[str, Any]:
    """A QueryRequest or Prefetch; empty fields stay away.

    `filters` remembers the filters of one call by their identity: a shared one is sent once.
    """
    found: dict[str, Any] = {}
    filters = {} if filters is None else filters
    if request.prefetch:
        nested = request.prefetch if isinstance(request.prefetch, list) else [request.prefetch]
        found["prefetch"] = [plain_request(one, filters) for one in nested]
    if request.query is not None:
        found["query"] = plain_query(request.query)
    if request.filter is not None:
        if id(request.filter) not in filters:
            filters[id(request.filter)] = plain(request.filter)
        found["filter"] = filters[id(request.filter)]
    if request.params is not None:
        found["params"] = plain(request.params)
    if request.lookup_from is not None:
        raise RequestError("The embedded engine looks up no vectors in other collections.")
    for name in ("using", "score_threshold", "limit", "offset"):
        value = getattr(request, name, None)
        if value is not None:
            found[name] = value
    if not isinstance(request, models.Prefetch):
        found["with_payload"], found["with_vector"] = shown(
            request.with_payload, request.with_vector
        )
    return found


def shown(with_payload: Any, with_vectors: Any) -> tuple[Any, Any]:
    """What to return with each point."""
    if isinstance(with_payload, Beginnings):
        with_payload = {"include": with_payload.include, "longest": with_payload.longest}
    elif isinstance(with_payload, BaseModel):
        with_payload = plain(with_payload)
    return with_payload if with_payload is not None else False, (
        list(with_vectors) if isinstance(with_vectors, list | tuple) else bool(with_vectors)
    )


@cache
def _records() -> TypeAdapter[list[models.Record]]:
    return TypeAdapter(list[models.Record])


@cache
def _scored() -> TypeAdapter[list[models.ScoredPoint]]:
    return TypeAdapter(list[models.ScoredPoint])


def records(rows: list[tuple[Any, ...]]) -> list[models.Record]:
    """Stored points."""
    fields = [
        {"id": point_id, "payload": payload, "vector": vector, "order_value": order_value}
        for point_id, payload, vector, order_value in rows
    ]
    return _records().validate_python(fields)


def response(rows: list[tuple[Any, ...]]) -> QueryResponse:
    """The answer to one query. The adapter is twice as fast as building point by point."""
    fields = [
        {
            "id": point_id,
            "version": version,
            "score": score,
            "payload": payload,
            "vector": vector,
            "order_value": order_value,
        }
        for point_id, payload, vector, order_value, score, version in rows
    ]
    return QueryResponse.model_construct(points=_scored().validate_python(fields))


def sidecar(vectors: Any, sparse: Any, metadata: Any) -> dict[str, Any]:
    """What a collection is made of."""
    named = {"": vectors} if isinstance(vectors, models.VectorParams) else dict(vectors or {})
    return {
        "vectors": {name: plain(params) for name, params in named.items()},
        "sparse_vectors": {name: plain(params) for name, params in (sparse or {}).items()},
        "metadata": plain_payload(metadata) if metadata else None,
        "token": uuid4().hex,
    }


def collection_info(found: Mapping[str, Any]) -> models.CollectionInfo:
    """The host's description of a collection, in the server's shape."""
    named = {n: models.VectorParams.model_validate(p) for n, p in found["vectors"].items()}
    vectors: Any = named[""] if list(named) == [""] else named
    sparse = found["sparse_vectors"]
    schema = {
        key: models.PayloadIndexInfo.model_validate(index)
        for key, index in found["payload_schema"].items()
    }
    params = models.CollectionParams(
        vectors=vectors,
        sparse_vectors={n: models.SparseVectorParams.model_validate(p) for n, p in sparse.items()}
        or None,
    )
    damage = found["damage"]
    sound = models.CollectionStatus.YELLOW if found["optimising"] else models.CollectionStatus.GREEN
    return models.CollectionInfo(
        status=models.CollectionStatus.RED if damage else sound,
        warnings=[models.CollectionWarning(message=damage)] if damage else None,
        optimizer_status=models.OptimizersStatusOneOf.OK,
        indexed_vectors_count=found["indexed_vectors_count"],
        points_count=found["points_count"],
        segments_count=found["segments_count"],
        config=models.CollectionConfig(
            params=params,
            hnsw_config=models.HnswConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
            optimizer_config=models.OptimizersConfig(
                deleted_threshold=0.2,
                vacuum_min_vector_number=1000,
                default_segment_number=0,
                flush_interval_sec=0,
            ),
            wal_config=None,
            metadata=found["metadata"],
        ),
        payload_schema=schema,
        created_at=found["created_at"],
    )
