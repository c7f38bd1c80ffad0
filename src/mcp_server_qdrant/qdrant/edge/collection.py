"""A collection within the shard of its vector space: stored ids, payload key and filter.

One shard holds the points of many collections. Each point has the id of its collection in the
indexed keyword `KEY`. Point ids of two collections may be equal, so each collection has a mask,
which is XORed with the first 32 bits of the point's own id. Within a collection ids with a common
prefix stay neighbours in id order, which the completion of short ids relies on.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import InvalidPoint

KEY = "__collection__"
# The first half of a stored id whose own id is an integer, before masking.
_INTEGER = 0x6D63_702D_7164_F1A7
_HALF = 1 << 64
_SHIFT = 96

Plain = Mapping[str, Any]


@dataclass(slots=True)
class Entry:
    """A collection in the catalogue.

    `id`, 16 hexadecimal digits, marks its points in the space. `vectors` and `sparse_vectors` map
    names to parameters, `indexes` maps payload fields to declared indexes. `fault`: why the
    collection cannot be used.
    """

    name: str
    id: str
    space: str
    vectors: dict[str, Any]
    sparse_vectors: dict[str, Any]
    metadata: dict[str, Any] | None = None
    created_at: str | None = None
    indexes: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None

    @property
    def mask(self) -> int:
        """The mask that is XORed with its point ids."""
        return int(self.id[:8], 16) << _SHIFT


def stored_id(entry: Entry, point: Any) -> str:
    """The id in the shard of a point whose own id is an unsigned integer or a UUID."""
    whole = _INTEGER * _HALF + point if isinstance(point, int) else UUID(point).int
    return f"{whole ^ entry.mask:032x}"


def own_id(entry: Entry, stored: int) -> int | str:
    """The point's own id, from its stored id as a number."""
    whole = stored ^ entry.mask
    if whole >> 64 == _INTEGER:
        return whole % _HALF
    digits = f"{whole:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def stored_payload(entry: Entry, payload: Mapping[str, Any] | None) -> dict[str, Any]:
    """The payload with the collection's id. Raises InvalidPoint if it already has our key."""
    check_key(payload or ())
    return {**(payload or {}), KEY: entry.id}


def check_key(paths: Iterable[str]) -> None:
    """Raise InvalidPoint if one of these payload paths is our key."""
    if any(path.split(".")[0].split("[")[0].strip('"') == KEY for path in paths):
        raise InvalidPoint(f"The payload key {KEY!r} is the embedded engine's own: rename it.")


def confine(
    entries: Sequence[Entry], where: Plain | None, *, others: Sequence[str] | None = None
) -> Plain | None:
    """The filter restricted to these collections of one space, with stored ids.

    `others` are the ids of all other collections of the space, if excluding those is faster than
    including these. Returns None if nothing is left to filter.
    """
    made: dict[str, list[Plain]] = {}
    if others is None:
        made["must"] = [_in_collections([entry.id for entry in entries])]
    elif others:
        made["must_not"] = [_in_collections(others)]
    if where:
        made["must"] = [*made.get("must", ()), _with_stored_ids(entries, where)]
    return made or None


def _in_collections(ids: Sequence[str]) -> Plain:
    return {"key": KEY, "match": {"value": ids[0]} if len(ids) == 1 else {"any": [*ids]}}


def _with_stored_ids(entries: Sequence[Entry], where: Any) -> Any:
    """A copy of a filter or condition, with stored ids."""
    if isinstance(where, list):
        return [_with_stored_ids(entries, one) for one in where]
    if "has_id" in where:
        ids = [stored_id(entry, point) for point in where["has_id"] for entry in entries]
        return {**where, "has_id": ids}
    if "min_should" in where:
        least = where["min_should"]
        chosen = _with_stored_ids(entries, least["conditions"])
        where = {**where, "min_should": {**least, "conditions": chosen}}
    groups = {key: where[key] for key in ("must", "should", "must_not") if where.get(key)}
    if not groups:
        return where
    return {**where, **{key: _with_stored_ids(entries, one) for key, one in groups.items()}}


def move_point(entry: Entry, point: int | str, record: Any, vectors: Container[str]) -> edge.Point:
    """A record's point moved into this collection, keeping only these of its vectors."""
    held = record.vector
    if isinstance(held, dict):
        held = {name: vector for name, vector in held.items() if name in vectors}
    payload = {**(record.payload or {}), KEY: entry.id}
    return edge.Point(stored_id(entry, point), held or {}, payload)
