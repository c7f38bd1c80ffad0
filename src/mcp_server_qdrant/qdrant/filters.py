"""What callers may filter by, turned into Qdrant's own filter."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import ValidationError
from qdrant_client import models

from mcp_server_qdrant.errors import InvalidFilter
from mcp_server_qdrant.notation import as_point_id

MAX_DEPTH = 16

_INDEXES = {
    "keyword": models.PayloadSchemaType.KEYWORD,
    "integer": models.PayloadSchemaType.INTEGER,
    "float": models.PayloadSchemaType.FLOAT,
    "boolean": models.PayloadSchemaType.BOOL,
}
FieldType = Literal["keyword", "integer", "float", "boolean"]


def parse(raw: Mapping[str, Any] | None) -> models.Filter | None:
    """Qdrant's REST filter as sent by a caller. None or empty: no filter.

    Raises InvalidFilter with what is wrong and an example that works.
    """
    if not raw:
        return None
    if _depth(raw) > MAX_DEPTH:
        raise InvalidFilter(f"query_filter is nested deeper than {MAX_DEPTH} levels: flatten it.")
    try:
        parsed = models.Filter.model_validate(raw)
    except ValidationError as error:
        raise InvalidFilter(_sentence(_fault(raw, error))) from error
    for one in _conditions(parsed):
        if isinstance(one, models.FieldCondition) and one.model_fields_set == {"key"}:
            raise InvalidFilter(_sentence(f"nothing is asked of the field {one.key!r}"))
        if isinstance(one, models.HasIdCondition) and not all(map(_is_point_id, one.has_id)):
            raise InvalidFilter(_sentence("has_id takes ids of points, as qdrant-find shows them"))
    return parsed


def _is_point_id(one: object) -> bool:
    known = as_point_id(str(one))
    return isinstance(known, type(one)) and not isinstance(one, bool)


def _conditions(parsed: models.Filter) -> Iterator[Any]:
    """Every condition of a filter, those of filters inside it too."""
    least = parsed.min_should.conditions if parsed.min_should else None
    for clause in (parsed.must, parsed.should, parsed.must_not, least):
        for one in clause if isinstance(clause, list) else [clause]:
            if isinstance(one, models.Filter):
                yield from _conditions(one)
            elif isinstance(one, models.NestedCondition):
                yield from _conditions(one.nested.filter)
            else:
                yield one


def _sentence(fault: str) -> str:
    example = '{"must": [{"key": "metadata.project", "match": {"value": "atlas"}}]}'
    return f"query_filter is not a Qdrant filter: {fault}. Example: {example}"


def _fault(raw: Mapping[str, Any], error: ValidationError) -> str:
    unknown = sorted(set(raw) - set(models.Filter.model_fields))
    if unknown:
        return f"{unknown[0]!r} is not one of must, should, must_not, min_should"
    places = (_place(raw, one["loc"]) for one in error.errors(include_url=False))
    deepest = max(places, key=len)
    return f"{'.'.join(map(str, deepest))} is not a condition Qdrant knows"


def _place(raw: Any, location: Sequence[str | int]) -> list[str | int]:
    """The keys and places of `location` that the filter has; the rest are pydantic's types."""
    place: list[str | int] = []
    for part in location:
        inside = isinstance(raw, Mapping) and part in raw
        if inside or (isinstance(raw, list) and isinstance(part, int) and part < len(raw)):
            raw = raw[part]
            place.append(part)
    return place


def _depth(value: Any, level: int = 0) -> int:
    if level > MAX_DEPTH:
        return level
    if isinstance(value, Mapping):
        return max((_depth(item, level + 1) for item in value.values()), default=level)
    if isinstance(value, list | tuple):
        return max((_depth(item, level + 1) for item in value), default=level)
    return level


def index_type(field_type: FieldType) -> models.PayloadSchemaType:
    """The payload index that makes a field of this type filterable."""
    return _INDEXES[field_type]
