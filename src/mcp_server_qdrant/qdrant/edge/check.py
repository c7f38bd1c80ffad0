"""What must not reach the engine, refused in one sentence.

Qdrant Edge validates nothing, logs an update before applying it and replays the log at load:
one bad point can make a whole collection unloadable. Points here are plain:
`(id, vector or None, payload or None)`.
"""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from typing import Any
from uuid import UUID

from mcp_server_qdrant.core.errors import InvalidPoint, RequestError

MAX_DEPTH = 96  # 120 levels still load, 124 do not
MAX_ID = 2**64 - 1
MAX_INDEX = 2**32 - 1
MAX_SIZE = 65_536
_LARGEST_FLOAT = 3.4e38

Schema = Mapping[str, Any]


def plain_payload(value: Any, depth: int = 0) -> Any:
    """The payload as JSON data: dates become ISO 8601 texts; what JSON cannot hold is refused."""
    if value is None or isinstance(value, str | bool | int | float):
        return value.value if isinstance(value, Enum) else value
    if depth >= MAX_DEPTH:
        raise InvalidPoint(f"The payload is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(value, Mapping):
        return {_plain_key(key): plain_payload(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_payload(item, depth + 1) for item in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Enum):
        return plain_payload(value.value, depth)
    if hasattr(value, "tolist"):  # numpy
        return plain_payload(value.tolist(), depth)
    raise InvalidPoint(f"The payload holds a {type(value).__name__}, which JSON cannot hold.")


def _plain_key(key: Any) -> str:
    if not isinstance(key, str):
        raise InvalidPoint(f"A payload key must be a text, not {key!r}.")
    return key


def check_payload(value: Any, depth: int = 0) -> None:
    """Refuse NaN and infinity, lone surrogates, deep nesting and whatever is not JSON."""
    kind = type(value)
    if kind is str:
        _check_text(value)
    elif kind is float:
        if not math.isfinite(value):
            raise InvalidPoint("The payload holds NaN or infinity, which JSON cannot hold.")
    elif kind is dict or kind is list:
        if depth >= MAX_DEPTH:
            raise InvalidPoint(f"The payload is nested deeper than {MAX_DEPTH} levels.")
        for item in value:
            check_payload(item, depth + 1)
        if kind is dict:
            for item in value.values():
                check_payload(item, depth + 1)
    elif kind is not int and kind is not bool and value is not None:
        raise InvalidPoint(f"The payload holds a {kind.__name__}, which JSON cannot hold.")


def _check_text(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidPoint("A payload text holds half a surrogate pair.") from None


def check_id(point_id: Any) -> None:
    """Refuse an id that is neither an unsigned 64-bit integer nor a UUID."""
    if type(point_id) is int and 0 <= point_id <= MAX_ID:
        return
    if type(point_id) is str:
        try:
            UUID(point_id)
        except ValueError:
            pass
        else:
            return
    shown = repr(point_id)
    raise InvalidPoint(
        f"A point id is an unsigned integer or a UUID, not"
        f" {shown if len(shown) <= 80 else shown[:80] + '...'}."
    )


def check_ids(point_ids: Iterable[Any]) -> None:
    """Refuse the list if one id is wrong."""
    for point_id in point_ids:
        check_id(point_id)


def check_points(points: Iterable[tuple[Any, Any, Any]], schema: Schema) -> None:
    """Refuse the batch if one point's id, vectors or payload is wrong."""
    for point_id, vector, payload in points:
        check_id(point_id)
        if vector is not None:
            check_vectors(vector, schema)
        if payload is not None:
            if type(payload) is not dict:
                raise InvalidPoint("A payload is an object with text keys.")
            check_payload(payload)


def check_vectors(vector: Any, schema: Schema) -> None:
    """Refuse vectors the collection does not have, of a wrong size or with wrong values."""
    named = vector if isinstance(vector, dict) else {"": vector}
    for name, value in named.items():
        if name in schema["vectors"]:
            check_dense(value, name, schema["vectors"][name])
        elif name in schema["sparse_vectors"]:
            check_sparse(value, name)
        else:
            raise InvalidPoint(unknown_vector(name, schema))


def unknown_vector(name: str, schema: Schema) -> str:
    """The sentence for a vector name the collection does not have."""
    known = [n or "(unnamed)" for n in (*schema["vectors"], *schema["sparse_vectors"])]
    called = f"no vector named {name!r}" if name else "no unnamed vector"
    return f"The collection {schema['name']!r} has {called}; it has: {', '.join(known)}."


def check_dense(value: Any, name: str, params: Mapping[str, Any]) -> None:
    """Refuse a dense vector (or, for a multivector, its rows) of wrong size or content."""
    if params.get("multivector_config"):
        if not isinstance(value, list) or not value:
            raise InvalidPoint(f"The vector {name!r} takes a list of vectors.")
        for row in value:
            _check_row(row, name, params["size"])
        return
    _check_row(value, name, params["size"])


def _check_row(row: Any, name: str, size: int) -> None:
    if not isinstance(row, list | array):
        raise InvalidPoint(f"The vector {name!r} takes a list of {size} numbers.")
    if len(row) != size:
        raise InvalidPoint(f"The vector {name!r} has size {size}, not {len(row)}.")
    if not _finite(row):
        raise InvalidPoint(f"The vector {name!r} takes finite numbers only.")


def _finite(numbers: Sequence[float]) -> bool:
    """Whether all are numbers that single precision can hold."""
    try:
        # Overflow to infinity, like NaN, survives the sum.
        return math.isfinite(sum(array("f", numbers)))
    except (TypeError, OverflowError):
        return False


def check_sparse(value: Any, name: str) -> None:
    """Refuse a sparse vector whose indices and values do not pair up one to one."""
    if not isinstance(value, dict) or value.keys() != {"indices", "values"}:
        raise InvalidPoint(f"The vector {name!r} is sparse: it takes indices and values.")
    indices, values = value["indices"], value["values"]
    if not isinstance(indices, list | array) or not isinstance(values, list | array):
        raise InvalidPoint(f"The vector {name!r} is sparse: it takes lists.")
    if len(indices) != len(values):
        raise InvalidPoint(
            f"The sparse vector {name!r} has {len(indices)} indices, but {len(values)} values."
        )
    if not all(type(index) is int and 0 <= index <= MAX_INDEX for index in indices):
        raise InvalidPoint(f"The sparse vector {name!r} takes unsigned 32-bit indices.")
    if len(set(indices)) != len(indices):
        raise InvalidPoint(f"The sparse vector {name!r} has an index twice.")
    if not _finite(values):
        raise InvalidPoint(f"The sparse vector {name!r} takes finite numbers only.")


def check_schema(vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> None:
    """Refuse a collection without vectors, with a senseless size, or with one name for two."""
    if not vectors and not sparse:
        raise RequestError("A collection needs at least one vector, dense or sparse.")
    for name, params in vectors.items():
        check_size(name, params["size"])
    for name in (*vectors, *sparse):
        check_vector_name(name)
    for name in vectors.keys() & sparse.keys():
        raise RequestError(f"{name!r} cannot name a dense and a sparse vector at once.")


def check_size(name: str, size: Any) -> None:
    """Refuse a size the engine cannot work with (0 would lock the collection for good)."""
    if type(size) is not int or not 0 < size <= MAX_SIZE:
        raise RequestError(f"The vector {name!r} needs a size from 1 to {MAX_SIZE}.")


def check_vector_name(name: Any) -> None:
    """Refuse a name that cannot be part of a file name in the shard."""
    good = isinstance(name, str) and len(name.encode("utf-8", "replace")) <= 200
    if not good or any(ord(c) < 32 or c in '/\\:*?"<>|' or 0xD800 <= ord(c) < 0xE000 for c in name):
        raise RequestError(f"{str(name)[:80]!r} cannot name a vector.")


def check_query(value: Any, name: str, schema: Schema) -> None:
    """Refuse a query vector that does not fit the collection's vector of that name."""
    check_names([name], schema)
    try:
        check_vectors({name: value}, schema)
    except InvalidPoint as refusal:
        raise RequestError(str(refusal)) from None


def check_names(names: Any, schema: Schema) -> None:
    """Refuse to show or search vectors that the collection does not have."""
    for name in names if isinstance(names, list) else ():
        if name not in schema["vectors"] and name not in schema["sparse_vectors"]:
            raise RequestError(unknown_vector(name, schema))
