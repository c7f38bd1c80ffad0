"""The file of a collection's points in a backup.

The first line describes the collection, each other line is a point, both in JSON. Vectors are
base64 of little-endian float32, indices of uint32. The file has live points only: no log, nothing
deleted.
"""

import base64
import json
import os
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import qdrant_edge as edge

from mcp_server_qdrant.qdrant.edge.collection import KEY, Entry, own_id
from mcp_server_qdrant.qdrant.edge.plain import PlainPoint

_FIELDS = ("name", "vectors", "sparse_vectors", "metadata", "created_at", "indexes")
_LONGEST = 256 << 20  # bytes of a line


async def write_points(
    path: Path, entry: Entry, pages: Iterable[Sequence[Any]], pause: Callable[[], Awaitable[None]]
) -> int:
    """Write the records of a collection's points; returns their number. Raises OSError."""
    described = {key: value for key, value in asdict(entry).items() if key in _FIELDS}
    written = 0
    with path.open("xb") as file:
        file.write(_json_line(described))
        for page in pages:
            for record in page:
                payload = {k: v for k, v in (record.payload or {}).items() if k != KEY}
                file.write(
                    _json_line([own_id(entry, record.id.int), _pack(record.vector), payload])
                )
            written += len(page)
            await pause()
        file.flush()
        os.fsync(file.fileno())
    return written


def read_description(file: BinaryIO) -> dict[str, Any]:
    """Read the first line, the description. Raises ValueError or the like if it is invalid."""
    described = json.loads(file.readline(_LONGEST))
    if not isinstance(described["metadata"], dict | None):
        raise TypeError("The metadata are none.")
    return {key: described[key] for key in _FIELDS}


def read_points(file: BinaryIO, size: int) -> Iterator[list[PlainPoint]]:
    """The points after the description, in pages: `(id, vectors, payload)`.

    Raises ValueError or the like for an invalid line.
    """
    page: list[PlainPoint] = []
    while line := file.readline(_LONGEST):
        point, vector, payload = json.loads(line)
        page.append((point, _unpack(vector), payload))
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


def _json_line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _pack(vector: Any) -> Any:
    """Encode vectors: dense as a string, multivector as a list, sparse as an object."""
    if isinstance(vector, edge.SparseVector):
        return {"sparse": [_bytes(vector.indices, "I"), _bytes(vector.values, "f")]}
    if isinstance(vector, dict):
        return {"named": {name: _pack(one) for name, one in vector.items()}}
    if isinstance(vector, list) and vector and isinstance(vector[0], list):
        return [_pack(row) for row in vector]
    return None if vector is None else _bytes(vector, "f")


def _unpack(packed: Any) -> Any:
    match packed:
        case None:
            return {}
        case {"named": named}:
            return {name: _unpack(one) for name, one in named.items()}
        case {"sparse": [indices, values]}:
            return {"indices": _numbers(indices, "I"), "values": _numbers(values, "f")}
        case list():
            return [_unpack(row) for row in packed]
    return _numbers(packed, "f")


# The engine runs on little-endian machines only.
def _bytes(numbers: Any, kind: str) -> str:
    return base64.b64encode(array(kind, numbers).tobytes()).decode()


def _numbers(text: str, kind: str) -> list[Any]:
    return array(kind, base64.b64decode(text)).tolist()
