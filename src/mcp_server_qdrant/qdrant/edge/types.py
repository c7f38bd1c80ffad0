"""Converts REST-shaped plain data to Qdrant Edge types and back.

All filters of qdrant_client 1.20 except slices are supported; others are refused by name.
"""

from collections.abc import Callable, Mapping
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import InvalidFilter, RequestError

# The parameters that make two vectors different for the engine.
COMPARED = ("size", "distance", "multivector_config", "datatype", "modifier")
_QUANTISED_FROM_KB = 100
_PASSED_ON = (
    *("is_tenant", "prefix", "lookup", "range", "is_principal", "nested"),
    *("min_token_len", "max_token_len", "lowercase", "ascii_folding", "phrase_matching"),
)


class _Bool:
    """A boolean that survives `MatchValue`, which turns Python's True and False into integers.

    The binding recognises numpy's boolean by its class name, so this class takes that name.
    """

    def __init__(self, value: bool) -> None:  # noqa: FBT001
        self._value = value

    def __bool__(self) -> bool:
        return self._value


_Bool.__module__, _Bool.__name__, _Bool.__qualname__ = "numpy", "bool_", "bool_"


def to_filter(plain: Mapping[str, Any] | None) -> edge.Filter | None:
    """A filter; None stays None."""
    if plain is None:
        return None
    minimum = plain.get("min_should")
    return edge.Filter(
        **{name: _conditions(plain.get(name)) for name in ("must", "should", "must_not")},
        min_should=minimum
        and edge.MinShould(_conditions(minimum["conditions"]) or [], minimum["min_count"]),
    )


def _conditions(plain: Any) -> list[Any] | None:
    if plain is None:
        return None
    return [to_condition(one) for one in (plain if isinstance(plain, list) else [plain])]


def to_condition(plain: Mapping[str, Any]) -> Any:
    """A condition, or a filter that stands for one."""
    for key, build in _CONDITIONS.items():
        if key in plain:
            return build(plain)
    if plain.keys() <= {"must", "should", "must_not", "min_should"}:
        return to_filter(plain)
    raise InvalidFilter(f"The embedded engine does not support conditions with {', '.join(plain)}.")


def _field(plain: Mapping[str, Any]) -> Any:
    """A condition for each test, because Edge evaluates only one test per condition."""
    key = plain["key"]
    tests: list[Any] = [
        edge.FieldCondition(key, **{name: build(plain[name])})
        for name, build in _FIELD_TESTS.items()
        if plain.get(name) is not None
    ]
    if "match" in plain and (fixed := _fixed_match(plain["match"])) is not None:
        tests[0] = fixed
    if not tests:
        raise InvalidFilter(f"The condition on {key!r} tests nothing.")
    return tests[0] if len(tests) == 1 else edge.Filter(must=tests)


def _fixed_match(plain: Mapping[str, Any]) -> Any:
    """Replace matches with empty lists: `any` of nothing is false, `except` nothing is true."""
    if plain.get("any") == []:
        return edge.HasIdCondition(set())
    if plain.get("except") == []:
        return edge.Filter()
    return None


def _match(plain: Mapping[str, Any]) -> Any:
    for key, build in _MATCHES.items():
        if key in plain:
            return build(plain[key])
    raise InvalidFilter(f"The embedded engine does not support matches with {', '.join(plain)}.")


def _value(value: Any) -> edge.MatchValue:
    return edge.MatchValue(_Bool(value) if isinstance(value, bool) else value)  # type: ignore[arg-type]


def _range(plain: Mapping[str, Any]) -> Any:
    dates = any(isinstance(value, str) for value in plain.values())
    return edge.RangeDateTime(**plain) if dates else edge.RangeFloat(**plain)


def _to_geo_points(plain: Any) -> Any:
    """A geo condition with its points in the engine's type."""
    if isinstance(plain, list):
        return [_to_geo_points(one) for one in plain]
    if not isinstance(plain, Mapping):
        return plain
    if plain.keys() == {"lon", "lat"}:
        return edge.GeoPoint(**plain)
    made = {name: _to_geo_points(one) for name, one in plain.items()}
    return made.get("points", made)


_MATCHES: dict[str, Callable[[Any], Any]] = {
    "value": _value,
    "text": edge.MatchText,
    "text_any": edge.MatchTextAny,
    "phrase": edge.MatchPhrase,
    "prefix": edge.MatchPrefix,
    "substring": edge.MatchSubstring,
    # The class refuses an empty list, which `_fixed_match` has already replaced.
    "any": lambda values: edge.MatchAny(values or [""]),
    "except": lambda values: edge.MatchExcept(values or [""]),
}
_FIELD_TESTS: dict[str, Callable[[Any], Any]] = {
    "match": _match,
    "range": _range,
    "geo_bounding_box": lambda area: edge.GeoBoundingBox(**_to_geo_points(area)),
    "geo_radius": lambda area: edge.GeoRadius(**_to_geo_points(area)),
    "geo_polygon": lambda area: edge.GeoPolygon(**_to_geo_points(area)),
    "values_count": lambda counts: edge.ValuesCount(**counts),
    "is_empty": bool,
    "is_null": bool,
}
_CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "key": _field,
    "has_id": lambda plain: edge.HasIdCondition(set(plain["has_id"])),
    "has_vector": lambda plain: edge.HasVectorCondition(plain["has_vector"]),
    "is_empty": lambda plain: edge.IsEmptyCondition(plain["is_empty"]["key"]),
    "is_null": lambda plain: edge.IsNullCondition(plain["is_null"]["key"]),
    "nested": lambda plain: edge.NestedCondition(
        plain["nested"]["key"], to_filter(plain["nested"]["filter"]) or edge.Filter()
    ),
}


def search_params(*, exact: bool = False, corpus: edge.Filter | None = None) -> edge.SearchParams:
    """Search parameters: int8 codes are rescored; `exact` ignores them.

    `corpus`: the points that the IDF is computed over.
    """
    return edge.SearchParams(
        idf=None if corpus is None else edge.IdfParams(corpus),
        exact=exact,
        quantization=edge.QuantizationSearchParams(ignore=exact, rescore=True, oversampling=2.0),
    )


def to_order(plain: Mapping[str, Any]) -> edge.OrderBy:
    """The order of a scroll."""
    down = plain.get("direction") == "desc"
    return edge.OrderBy(
        plain["key"],
        direction=edge.Direction.Desc if down else edge.Direction.Asc,
        start_from=plain.get("start_from"),
    )


def to_vector(plain: Any) -> Any:
    """A query vector or one of a point's: a list (of lists), or sparse."""
    if isinstance(plain, dict):
        return edge.SparseVector(list(plain["indices"]), list(plain["values"]))
    return plain


def to_vectors(plain: Any) -> Any:
    """All vectors of a point: unnamed, or by name."""
    if isinstance(plain, dict):
        return {name: to_vector(value) for name, value in plain.items()}
    return {} if plain is None else plain


def shard_config(vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> edge.EdgeConfig:
    """The configuration of every shard: no graph, int8 codes for optimised segments, cold vectors.

    Measured at 200k x 384: optimised 25 times faster than HNSW, recall 1.00 with rescoring.
    """
    dense = {
        name: edge.EdgeVectorParams(**_dense(params), memory=edge.Memory.Cold)
        for name, params in vectors.items()
    }
    words = {
        name: edge.EdgeSparseVectorParams(
            modifier=edge.Modifier.Idf if params.get("modifier") == "idf" else None
        )
        for name, params in sparse.items()
    }
    return edge.EdgeConfig(
        vectors=dense or None,
        sparse_vectors=words or None,
        hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
        quantization_config=edge.ScalarQuantizationConfig(
            edge.ScalarType.Int8, memory=edge.Memory.Cold
        ),
        # For small segments too: memory bandwidth limits searches over many collections.
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=_QUANTISED_FROM_KB),
        max_search_threads=1,
    )


def same_vector(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """True if two declarations are equivalent for the engine."""
    return all(left.get(key) == right.get(key) for key in COMPARED)


def _dense(params: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's parameters of a dense vector."""
    made = {"size": params["size"], "distance": getattr(edge.Distance, params["distance"])}
    if datatype := params.get("datatype"):
        made["datatype"] = getattr(edge.VectorStorageDatatype, datatype.capitalize())
    if params.get("multivector_config"):
        comparator = edge.MultiVectorComparator.MaxSim
        made["multivector_config"] = edge.MultiVectorConfig(comparator)
    return made


def index_params(schema: str | Mapping[str, Any]) -> Any:
    """A payload index of that type, without HNSW links, since no graph is ever built."""
    fields: Mapping[str, Any] = {} if isinstance(schema, str) else schema
    kind = declared_type(schema)
    index = getattr(edge, f"{kind.capitalize()}IndexParams", None)
    if index is None:
        raise RequestError(f"There is no payload index of type {kind!r}.")
    params = {key: fields[key] for key in _PASSED_ON if fields.get(key) is not None}
    if kind == "text":
        params["phrase_matching"] = True  # collections share the index, and one may search phrases
    if tokenizer := fields.get("tokenizer"):
        params["tokenizer"] = getattr(edge.TokenizerType, tokenizer.capitalize())
    return index(enable_hnsw=False, **params)


def declared_type(schema: str | Mapping[str, Any]) -> str:
    """The type of an index that was declared, as the REST interface spells it."""
    return schema if isinstance(schema, str) else str(schema.get("type", ""))


def index_type(info: Any) -> str:
    """The type of an existing index, as the REST interface spells it."""
    return repr(info.data_type).rpartition(".")[2].lower()
