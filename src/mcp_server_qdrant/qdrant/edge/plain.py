"""Converts qdrant_client models to plain data of the embedded engine, always as copies."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from qdrant_client import models

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge.check import check_id, plain_id, plain_payload

if TYPE_CHECKING:
    from mcp_server_qdrant.qdrant.engine import Chosen

PlainPoint = tuple[int | str, Any, dict[str, Any] | None]  # id, vectors, payload


def plain(value: Any) -> Any:
    """A model, or a value containing models, as REST-shaped data without null fields."""
    return to_jsonable_python(value, by_alias=True, exclude_none=True)


def plain_vector(vector: Any) -> Any:
    """One vector: a list (of lists), or sparse as indices and values."""
    if isinstance(vector, models.SparseVector):
        return {"indices": vector.indices[:], "values": vector.values[:]}
    if isinstance(vector, BaseModel):
        raise RequestError(f"The embedded engine embeds no {type(vector).__name__}.")
    if hasattr(vector, "tolist"):
        return vector.tolist()
    if not isinstance(vector, list):
        return vector
    return [row[:] for row in vector] if vector and isinstance(vector[0], list) else vector[:]


def plain_vectors(vectors: Any) -> Any:
    """All vectors of a point."""
    if isinstance(vectors, Mapping):
        return {name: plain_vector(vector) for name, vector in vectors.items()}
    return plain_vector(vectors)


def plain_point(point: Any) -> PlainPoint:
    """PointStruct or PointVectors as `(id, vectors, payload)`."""
    payload = getattr(point, "payload", None)
    return plain_id(point.id), plain_vectors(point.vector), payload and plain_payload(payload)


def plain_choice(selector: "Chosen") -> Any:
    """The chosen points as a filter."""
    if isinstance(selector, models.Filter):
        return plain(selector)
    ids = [plain_id(point_id) for point_id in selector]
    for point_id in ids:
        check_id(point_id)
    return {"must": [{"has_id": ids}]}


def new_description(vectors: Any, sparse: Any, metadata: Any) -> dict[str, Any]:
    """The description of a new collection."""
    named = {"": vectors} if isinstance(vectors, models.VectorParams) else vectors
    return {
        "vectors": plain(named or {}),
        "sparse_vectors": plain(sparse or {}),
        "metadata": plain_payload(metadata) if metadata else None,
    }
