"""The vectors of a collection as legs of a search, and its date indexes."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import SPARSE_NAME, DenseLeg, Distance, ModelChoice, SparseLeg
from mcp_server_qdrant.core.notation import cite, cite_all
from mcp_server_qdrant.qdrant import marks
from mcp_server_qdrant.qdrant.engine import Point


class Described(models.CollectionInfo):
    """A collection's info; collections with the same `space` are searched together."""

    space: str | None = None


class KnownModels(Protocol):
    """Chooses embedding models; implemented by the encoders, which this package must not import."""

    async def choose(
        self, collection: str, metadata: Mapping[str, Any], vectors: Sequence[str]
    ) -> ModelChoice:
        """The model of a collection with these dense vectors."""

    async def shape(self, model: str) -> tuple[str, int | None]:
        """The name of a model's vector in our collections, and its size if known."""


def dense_vectors(info: models.CollectionInfo) -> dict[str, models.VectorParams]:
    """Vector name -> its parameters; an unnamed vector is ""."""
    vectors = info.config.params.vectors
    if vectors is None:
        return {}
    return {"": vectors} if isinstance(vectors, models.VectorParams) else dict(vectors)


def sparse_leg(info: models.CollectionInfo, unfinished: Container[str]) -> SparseLeg | None:
    """Our `bm25` vector, else one that is probably BM25: by its IDF modifier or name."""
    vectors = info.config.params.sparse_vectors or {}
    vectors = {name: params for name, params in vectors.items() if name not in unfinished}
    for name in sorted(vectors, key=lambda name: (name != SPARSE_NAME, name)):
        idf = vectors[name].modifier == models.Modifier.IDF
        if idf or "bm25" in name.lower():
            return SparseLeg(name, idf)
    return None


async def dense_leg(
    known: KnownModels, collection: str, info: models.CollectionInfo
) -> tuple[DenseLeg | None, str | None]:
    """The dense vector that is searched, or why none is; of several that fit, which one it is."""
    metadata = info.config.metadata or {}
    unfinished = marks.filling(metadata)
    vectors = {k: v for k, v in dense_vectors(info).items() if k not in unfinished}
    if not vectors:
        return None, "keywords only: it has no dense vector"
    choice = await known.choose(collection, metadata, tuple(vectors))
    if choice.model is None:
        return None, choice.fault
    named, size = await known.shape(choice.model)
    fitting = [
        name
        for name, params in sorted(vectors.items(), key=lambda item: item[0] != named)
        if params.multivector_config is None and size in (None, params.size)
        if name == named or choice.certain or not name.startswith("fast-")
    ]
    if fitting:
        name, *others = fitting
        distance = cast("Distance", vectors[name].distance.value.lower())
        several = f"of the vectors that fit, {cite(name)} is searched, not {cite_all(others)}"
        leg = DenseLeg(name, vectors[name].size, distance, choice.model)
        return leg, several if others and name != named else None
    return None, mismatch(vectors, choice.model, size)


def mismatch(vectors: dict[str, models.VectorParams], model: str, size: int | None) -> str:
    """Why none of the dense vectors fits the model."""
    has = ", ".join(f"{name or 'unnamed'} ({params.size})" for name, params in vectors.items())
    wants = f"{model} makes {size}" if size else f"{model} made none of them"
    return f"its dense vectors do not fit the model: it has {has}, {wants} dimensions"


def dated_paths(info: models.CollectionInfo, paths: Iterable[str]) -> tuple[str, ...]:
    """The payload paths that have a date index."""
    kind = models.PayloadSchemaType.DATETIME
    indexed = {path for path, index in info.payload_schema.items() if index.data_type == kind}
    return tuple(path for path in paths if path in indexed)


def vector_of(record: Point, leg: DenseLeg) -> Sequence[float] | None:
    """A record's vector for the leg; None if it is missing or has another size."""
    held = record.vector
    if isinstance(held, dict):
        held = held.get(leg.vector)
    if not isinstance(held, list) or len(held) != leg.size:
        return None
    return held
