"""Checks of every write and query: Qdrant Edge itself validates nothing.

It logs an update before applying it and replays the log at load, so one bad point can make a whole
collection unloadable. Points are plain tuples here: `(id, vector or None, payload or None)`. The
client checks payloads while converting them; the engine checks what depends on the collection.
"""

import contextlib
import math
import re
import textwrap
from array import array
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any
from uuid import UUID

from mcp_server_qdrant.core.errors import InvalidPoint, RequestError

MAX_DEPTH = 96  # 120 levels still load, 124 do not
MAX_ID = 2**64 - 1
MAX_INDEX = 2**32 - 1
MAX_SIZE = 65_536
_NO_FILE_NAME = re.compile(r'[\x00-\x1f/\\:*?"<>|\ud800-\udfff]')

Schema = Mapping[str, Any]


def plain_payload(value: Any, levels: int = MAX_DEPTH) -> Any:
    """The payload as JSON data: dates become ISO 8601 texts.

    Raises InvalidPoint for NaN, infinity, lone surrogates, deep nesting and non-JSON values.
    """
    if not isinstance(value, dict | list | tuple):
        return _plain(value)
    if levels == 0:
        raise InvalidPoint(f"The payload is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(value, dict):
        return {
            _plain(key if isinstance(key, str) else str(key)): plain_payload(one, levels - 1)
            for key, one in value.items()
        }
    return [plain_payload(one, levels - 1) for one in value]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidPoint("The payload contains a lone surrogate.") from None
        return value[:]  # turns a string enum into str
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidPoint("The payload holds NaN or infinity.")
        return float(value)
    if isinstance(value, date | UUID):  # a datetime is a date too
        return value.isoformat() if isinstance(value, date) else str(value)
    if hasattr(value, "tolist"):  # numpy
        return plain_payload(value.tolist())
    kind = type(value).__name__
    raise InvalidPoint(f"The payload holds what JSON cannot hold: an object of the type {kind}.")


def plain_id(point_id: Any) -> int | str:
    """An id as an integer or a string."""
    return str(point_id) if isinstance(point_id, UUID) else point_id


def check_id(point_id: Any) -> None:
    """Refuse an id that is neither an unsigned 64-bit integer nor a UUID."""
    if type(point_id) is int and 0 <= point_id <= MAX_ID:
        return
    if type(point_id) is str:
        with contextlib.suppress(ValueError):
            UUID(point_id)
            return
    shown = textwrap.shorten(repr(point_id), 80)
    raise InvalidPoint(f"A point id is an unsigned integer or a UUID, not {shown}.")


def check_points(points: Iterable[tuple[Any, Any, Any]], schema: Schema) -> None:
    """Refuse the batch if one point's id or vectors are wrong."""
    for point_id, vector, _ in points:
        check_id(point_id)
        if vector is not None:
            check_vectors(vector, schema)


def check_vectors(vector: Any, schema: Schema) -> None:
    """Refuse vectors the collection does not have, of a wrong size or with wrong values."""
    named = vector if isinstance(vector, dict) else {"": vector}
    for name, value in named.items():
        if name in schema["vectors"]:
            _check_dense(value, name, schema["vectors"][name])
        elif name in schema["sparse_vectors"]:
            _check_sparse(value, name)
        else:
            known = [n or "(unnamed)" for n in (*schema["vectors"], *schema["sparse_vectors"])]
            lacking = f"no vector named {name!r}" if name else "no unnamed vector"
            raise InvalidPoint(
                f"The collection {schema['name']!r} has {lacking}; it has: {', '.join(known)}."
            )


def _check_dense(value: Any, name: str, params: Mapping[str, Any]) -> None:
    size, several = params["size"], bool(params.get("multivector_config"))
    for row in value if several and value and isinstance(value, list) else [value]:
        if not _finite(row):
            what = "lists" if several else "a list"
            raise InvalidPoint(f"The vector {name!r} takes {what} of {size} finite numbers.")
        if len(row) != size:
            raise InvalidPoint(f"The vector {name!r} has size {size}, not {len(row)}.")


def _finite(numbers: Any) -> bool:
    """True for a list of numbers that are finite in single precision."""
    try:
        # An infinity from overflow, like NaN, shows in the sum.
        return isinstance(numbers, list | array) and math.isfinite(sum(array("f", numbers)))
    except (TypeError, OverflowError):
        return False


def _check_sparse(value: Any, name: str) -> None:
    well = isinstance(value, dict) and value.keys() == {"indices", "values"}
    if well:
        indices, values = value["indices"], value["values"]
        well = (
            isinstance(indices, list | array)
            and all(type(index) is int and 0 <= index <= MAX_INDEX for index in indices)
            and _finite(values)
            and len(set(indices)) == len(indices) == len(values)
        )
    if not well:
        raise InvalidPoint(
            f"The sparse vector {name!r} takes unsigned 32-bit indices, none of them twice, and as"
            " many finite values."
        )


def check_schema(vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> None:
    """Refuse a schema that the engine could not store, or could never open again."""
    if not vectors and not sparse:
        raise RequestError("A collection needs at least one vector, dense or sparse.")
    for name, params in vectors.items():
        size = params["size"]
        if type(size) is not int or not 0 < size <= MAX_SIZE:
            raise RequestError(f"The vector {name!r} needs a size from 1 to {MAX_SIZE}.")
    for name in (*vectors, *sparse):
        if len(name.encode("utf-8", "replace")) > 200 or _NO_FILE_NAME.search(name):
            raise RequestError(f"{name[:80]!r} cannot name a vector.")
    for name in vectors.keys() & sparse.keys():
        raise RequestError(f"{name!r} cannot name a dense and a sparse vector at once.")
