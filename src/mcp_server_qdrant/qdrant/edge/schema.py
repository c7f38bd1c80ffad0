"""Collection parameters and payload indexes, plain data <-> Qdrant Edge types."""

from collections.abc import Mapping
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError

_QUANTISED_FROM_KB = 100
_PASSED_ON = (
    *("is_tenant", "prefix", "lookup", "range", "is_principal", "nested"),
    *("min_token_len", "max_token_len", "lowercase", "ascii_folding", "phrase_matching"),
)


def shard_config(vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> edge.EdgeConfig:
    """The configuration of every shard: no graph, int8 codes for optimised segments, cold vectors.

    Measured at 200k x 384: optimised 25 times faster than HNSW, recall 1.00 with rescoring.
    """
    dense = {
        name: edge.EdgeVectorParams(**_dense(params), memory=edge.Memory.Cold)
        for name, params in vectors.items()
    }
    return edge.EdgeConfig(
        vectors=dense or None,
        sparse_vectors={
            name: edge.EdgeSparseVectorParams(modifier=_modifier(params))
            for name, params in sparse.items()
        }
        or None,
        hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
        quantization_config=edge.ScalarQuantizationConfig(
            edge.ScalarType.Int8, memory=edge.Memory.Cold
        ),
        # Small segments too: over many collections memory bandwidth is what a search costs.
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=_QUANTISED_FROM_KB),
        max_search_threads=1,
    )


def new_vector(name: str, kind: str, params: Mapping[str, Any]) -> edge.UpdateOperation:
    """The update that adds a vector to a shard; `kind` is `vectors` or `sparse_vectors`."""
    if kind == "sparse_vectors":
        return edge.UpdateOperation.create_sparse_vector(name, _modifier(params))
    return edge.UpdateOperation.create_dense_vector(name, **_dense(params))


def same_vector(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """True if two declarations mean the same to the engine."""
    compared = ("size", "distance", "multivector_config", "datatype", "modifier")
    return all(left.get(key) == right.get(key) for key in compared)


def _dense(params: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's parameters of a dense vector."""
    datatype, several = params.get("datatype"), params.get("multivector_config")
    return {
        "size": params["size"],
        "distance": getattr(edge.Distance, params["distance"]),
        "datatype": getattr(edge.VectorStorageDatatype, datatype.capitalize())
        if datatype
        else None,
        "multivector_config": edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
        if several
        else None,
    }


def _modifier(params: Mapping[str, Any]) -> edge.Modifier | None:
    return edge.Modifier.Idf if params.get("modifier") == "idf" else None


def index_params(schema: str | Mapping[str, Any]) -> Any:
    """A payload index of that type; graphs are never built, so its share of one is refused."""
    fields: Mapping[str, Any] = {"type": schema} if isinstance(schema, str) else schema
    kind = fields.get("type", "")
    index = getattr(edge, f"{kind.capitalize()}IndexParams", None)
    if index is None:
        raise RequestError(f"There is no payload index of type {kind!r}.")
    kept = {key: fields[key] for key in _PASSED_ON if fields.get(key) is not None}
    if tokenizer := fields.get("tokenizer"):
        kept["tokenizer"] = getattr(edge.TokenizerType, tokenizer.capitalize())
    return index(enable_hnsw=False, **kept)


def index_type(info: Any) -> str:
    """The type of an existing index, as the REST interface spells it."""
    return repr(info.data_type).rpartition(".")[2].lower()
