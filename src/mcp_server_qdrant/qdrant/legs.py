"""The vectors that a collection has, as legs of a search, and its dates."""

from collections.abc import Container, Iterable

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import SPARSE_NAME, SparseLeg


def dense_vectors(info: models.CollectionInfo) -> dict[str, models.VectorParams]:
    """Vector name -> its parameters; an unnamed vector is ""."""
    vectors = info.config.params.vectors
    if vectors is None:
        return {}
    return {"": vectors} if isinstance(vectors, models.VectorParams) else dict(vectors)


def sparse_leg(info: models.CollectionInfo, unfinished: Container[str]) -> SparseLeg | None:
    """Our `bm25` vector, else one that BM25 can be presumed of: it has the IDF modifier."""
    vectors = info.config.params.sparse_vectors or {}
    vectors = {name: params for name, params in vectors.items() if name not in unfinished}
    for name in sorted(vectors, key=lambda name: (name != SPARSE_NAME, name)):
        idf = vectors[name].modifier == models.Modifier.IDF
        if idf or "bm25" in name.lower():
            return SparseLeg(name, idf)
    return None


def mismatch(vectors: dict[str, models.VectorParams], model: str, size: int | None) -> str:
    """Why none of the dense vectors is the model's."""
    has = ", ".join(f"{name or 'unnamed'} ({params.size})" for name, params in vectors.items())
    wants = f"{model} makes {size}" if size else f"{model} made none of them"
    return f"its dense vectors do not fit the model: it has {has}, {wants} dimensions"


def dated_paths(info: models.CollectionInfo, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the payload paths that have an index of dates."""
    kind = models.PayloadSchemaType.DATETIME
    indexed = {path for path, index in info.payload_schema.items() if index.data_type == kind}
    return tuple(path for path in paths if path in indexed)
