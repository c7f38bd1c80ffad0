"""Whose a point is: the filters, the stamp, and what of a payload is nobody else's business."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import Payload
from mcp_server_qdrant.core.errors import InvalidFilter
from mcp_server_qdrant.core.notation import NAMESPACE
from mcp_server_qdrant.qdrant.edge.plain import plain

CLAUSES = ("must", "should", "must_not")


@dataclass(frozen=True)
class Tenant:
    """A tenant, the payload field that says whose a point is, and that of who may read it too."""

    name: str
    field: str
    shared: str

    @property
    def own(self) -> models.Filter:
        """The points that are the tenant's: what it may write and delete."""
        return models.Filter(must=[_equals(self.field, self.name)])

    @property
    def readable(self) -> models.Filter:
        """Those, and what others share with it."""
        either = [_equals(self.field, self.name), _equals(self.shared, self.name)]
        return models.Filter(should=either)

    @property
    def indexes(self) -> dict[str, Any]:
        """What a collection indexes so that a tenant's points are found, and lie together."""
        together = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        return {self.field: together, self.shared: models.PayloadSchemaType.KEYWORD}

    @property
    def hidden(self) -> tuple[str, ...]:
        """The fields that are not shown of what others share: no caller may ask about them."""
        return self.field, self.shared, "doc"

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

        A document of another's is told from an own one of the same id.
        """
        if not payload:
            return payload
        owner = at(payload, self.field)
        seen = without(without(payload, self.field), self.shared)
        doc = seen.get("doc")
        if owner != self.name and isinstance(doc, dict) and isinstance(doc.get("id"), str):
            opaque = uuid.uuid5(NAMESPACE, f"{owner}\0{doc['id']}").hex
            seen = seen | {"doc": doc | {"id": opaque}}
        return seen


def _equals(key: str, name: str) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=name))


def check(where: Any, hidden: Iterable[str]) -> None:
    """Refuse a filter that asks about hidden fields, for its answer would tell what they hold.

    Raises InvalidFilter.
    """
    for key in keys(plain(where)) if where is not None else ():
        check_key(key, hidden)


def check_key(key: str, hidden: Iterable[str]) -> None:
    """The same of one payload path."""
    for kept in hidden:
        if f"{bare(key)}.".startswith(f"{kept}."):
            raise InvalidFilter(f"query_filter may not ask about the field {kept!r}.")


def both(guard: models.Filter, where: Any) -> models.Filter:
    """What meets both; `where` is a filter or nothing."""
    return guard if where is None else models.Filter(must=[guard, where])


def keys(where: Mapping[str, Any], inside: str = "") -> Iterator[str]:
    """The payload keys that a filter in REST form asks about, without brackets and quotes."""
    least = where.get("min_should") or {}
    for clause in (*(where.get(name) for name in CLAUSES), least.get("conditions")):
        for one in clause if isinstance(clause, list) else [clause] if clause else ():
            nested = one.get("nested")
            if nested:
                yield from keys(nested["filter"], f"{inside}{bare(nested['key'])}.")
            elif "key" in one:
                yield inside + bare(one["key"])
            elif any(name in one for name in (*CLAUSES, "min_should")):
                yield from keys(one, inside)
            for name in ("is_empty", "is_null"):
                if isinstance(one.get(name), Mapping):
                    yield inside + bare(one[name]["key"])


def bare(key: str) -> str:
    """A payload path as its names alone: `"a"[].b` is a.b."""
    return ".".join(step.split("[")[0].strip('"') for step in key.split("."))


def at(payload: Mapping[str, Any], path: str) -> Any:
    """What stands at a path of a payload."""
    value: Any = payload
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def without(payload: Payload, path: str) -> Payload:
    """The payload without what stands at a path; the given one is not changed."""
    first, _, rest = path.partition(".")
    if first not in payload:
        return payload
    if not rest:
        return {key: value for key, value in payload.items() if key != first}
    return payload | {first: _stripped(payload[first], rest)}


def _stripped(value: Any, path: str) -> Any:
    if isinstance(value, list):
        return [_stripped(one, path) for one in value]
    return without(value, path) if isinstance(value, dict) else value


def _with(payload: Payload, steps: list[str], value: Any) -> Payload:
    first, *rest = steps
    inner = payload.get(first)
    if rest:
        value = _with(inner if isinstance(inner, dict) else {}, rest, value)
    return payload | {first: value}
