"""Ownership of points: the filters, the stamp, and the fields that other tenants do not see."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import STORED_BY, SUPERSEDED_IN, Payload
from mcp_server_qdrant.core.errors import InvalidFilter
from mcp_server_qdrant.core.notation import NAMESPACE
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.filters import bare, conditions, equal


@dataclass(frozen=True)
class Tenant:
    """A tenant, the payload field of a point's owner, and the field of its other readers."""

    name: str
    field: str
    shared: str

    @property
    def own(self) -> models.Filter:
        """The points that are the tenant's: what it may write and delete."""
        return models.Filter(must=[equal(self.field, self.name)])

    @property
    def readable(self) -> models.Filter:
        """Its own points, and those that others share with it."""
        either = [equal(self.field, self.name), equal(self.shared, self.name)]
        return models.Filter(should=either)

    @property
    def indexes(self) -> dict[str, Any]:
        """The payload indexes by which a tenant's points are found, and lie together."""
        together = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        return {self.field: together, self.shared: models.PayloadSchemaType.KEYWORD}

    @property
    def hidden(self) -> tuple[str, ...]:
        """The fields that are not shown of what others share: no caller may ask about them."""
        return self.field, self.shared, "doc", STORED_BY, SUPERSEDED_IN

    def check(self, where: Any) -> None:
        """Refuse a filter, whoever's, that asks about tenants. Raises InvalidFilter."""
        check(where, (self.field, self.shared))

    def stamped(self, payload: Mapping[str, Any] | None, shared: Any = None) -> Payload:
        """The payload as the tenant's own, shared as it was before and not as it says itself."""
        bare = without(dict(payload or {}), self.shared)
        whole = _with(bare, self.field.split("."), self.name)
        return whole if shared is None else _with(whole, self.shared.split("."), shared)

    def shown(self, payload: Payload | None) -> Payload | None:
        """The payload as the tenant sees it.

        The id of another tenant's document is replaced: the tenant may have one of the same id. Who
        stored it, and where what supersedes it is, stays hidden.
        """
        if not payload:
            return payload
        owner = at(payload, self.field)
        seen = without(without(payload, self.field), self.shared)
        doc = seen.get("doc")
        if owner != self.name:
            seen = without(without(seen, STORED_BY), SUPERSEDED_IN)
        if owner != self.name and isinstance(doc, dict) and isinstance(doc.get("id"), str):
            opaque = uuid.uuid5(NAMESPACE, f"{owner}\0{doc['id']}").hex
            seen = seen | {"doc": doc | {"id": opaque}}
        return seen


def check(where: Any, hidden: Iterable[str]) -> None:
    """Refuse a filter that asks about hidden fields, for its answer would tell what they hold.

    Raises InvalidFilter.
    """
    for key in keys(plain(where)) if where is not None else ():
        check_key(key, hidden)


def check_key(key: str, hidden: Iterable[str]) -> None:
    """Refuse a hidden payload path. Raises InvalidFilter."""
    for kept in hidden:
        if f"{bare(key)}.".startswith(f"{kept}."):
            raise InvalidFilter(f"query_filter may not ask about the field {kept!r}.")


def keys(where: Mapping[str, Any]) -> Iterator[str]:
    """The payload keys that a filter in REST form asks about, without brackets and quotes."""
    for inside, condition in conditions(where):
        if "key" in condition:
            yield inside + bare(condition["key"])
        for name in ("is_empty", "is_null"):
            if isinstance(condition.get(name), Mapping):
                yield inside + bare(condition[name]["key"])


def at(payload: Mapping[str, Any], path: str) -> Any:
    """The value at a path of a payload."""
    value: Any = payload
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def without(payload: Payload, path: str) -> Payload:
    """A copy of the payload without the value at a path."""
    first, _, deeper = path.partition(".")
    if first not in payload:
        return payload
    if not deeper:
        return {key: value for key, value in payload.items() if key != first}
    return payload | {first: _stripped(payload[first], deeper)}


def _stripped(value: Any, path: str) -> Any:
    if isinstance(value, list):
        return [_stripped(item, path) for item in value]
    return without(value, path) if isinstance(value, dict) else value


def _with(payload: Payload, steps: list[str], value: Any) -> Payload:
    first, *deeper = steps
    inner = payload.get(first)
    if deeper:
        value = _with(inner if isinstance(inner, dict) else {}, deeper, value)
    return payload | {first: value}
