"""The points of a collection in a file: what a backup holds.

The first line is the description of the collection, each other line a point, both as JSON. Numbers
of vectors are base64 of their bytes in little-endian order: float32, or uint32 for indices. Only
what can be read is in it: no log, and nothing that was deleted.
"""

import base64
import json
import os
import sys
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.collection import KEY, Entry, own_id

_DESCRIBED = ("name", "vectors", "sparse_vectors", "metadata", "created_at", "indexes")
_LONGEST = 256 << 20  # bytes of a line

Point = tuple[int | str, Any, dict[str, Any] | None]


async def write_points(
    path: Path,
    entry: Entry,
    pages: Iterable[Sequence[Any]],
    pause: Callable[[], Awaitable[None]],
) -> int:
    """Write the records of a collection's points; how many they are. Raises OSError."""
    described = {key: value for key, value in asdict(entry).items() if key in _DESCRIBED}
    written = 0
    with path.open("xb") as file:
        file.write(_line(described))
        for page in pages:
            for record in page:
                payload = {k: v for k, v in (record.payload or {}).items() if k != KEY}
                vector = _packed(types.from_vectors(record.vector))
                file.write(_line([own_id(entry, record.id.int), vector, payload]))
            written += len(page)
            await pause()
        file.flush()
        os.fsync(file.fileno())
    return written


def read_description(file: BinaryIO) -> dict[str, Any]:
    """The description, which is the first line. Raises ValueError or the like where it is none."""
    described = json.loads(file.readline(_LONGEST))
    if not isinstance(described["metadata"], dict | None):
        raise TypeError("The metadata are none.")
    return {key: described[key] for key in _DESCRIBED}


def read_points(file: BinaryIO, size: int) -> Iterator[list[Point]]:
    """The points behind the description in pages: `(id, vectors, payload)`.

    Raises ValueError or the like for what is no point.
    """
    page: list[Point] = []
    while line := file.readline(_LONGEST):
        point, vector, payload = json.loads(line)
        page.append((point, _unpacked(vector), payload))
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _packed(vector: Any) -> Any:
    """Vectors: a text is a dense one, a list several, [indices, values] under "sparse"."""
    if isinstance(vector, dict) and vector.keys() == {"indices", "values"}:
        return {"sparse": [_bytes(vector["indices"], "I"), _bytes(vector["values"], "f")]}
    if isinstance(vector, dict):
        return {"named": {name: _packed(one) for name, one in vector.items()}}
    if isinstance(vector, list) and vector and isinstance(vector[0], list):
        return [_packed(row) for row in vector]
    return None if vector is None else _bytes(vector, "f")


def _unpacked(packed: Any) -> Any:
    match packed:
        case None:
            return {}
        case {"named": named}:
            return {name: _unpacked(one) for name, one in named.items()}
        case {"sparse": [indices, values]}:
            return {"indices": _numbers(indices, "I"), "values": _numbers(values, "f")}
        case list():
            return [_unpacked(row) for row in packed]
    return _numbers(packed, "f")


def _bytes(numbers: Any, kind: str) -> str:
    return base64.b64encode(_little(array(kind, numbers)).tobytes()).decode()


def _numbers(text: str, kind: str) -> list[Any]:
    found = array(kind)
    found.frombytes(base64.b64decode(text))
    return _little(found).tolist()


def _little(numbers: "array[Any]") -> "array[Any]":
    """From the machine's byte order to the file's, or back."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
