"""What callers may filter by, turned into Qdrant's own filter."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from pydantic import ValidationError
from qdrant_client import models

from mcp_server_qdrant.core.errors import InvalidFilter
from mcp_server_qdrant.core.notation import as_point_id

MAX_DEPTH = 16
MAX_CONDITIONS = 256
MAX_VALUES = 10_000  # in all lists of a filter together
MAX_INSIDE = 16  # conditions of a nested filter, which is asked of every element of a list
MAX_KEYS = 16  # of one object: no condition has so many
MAX_FAULTS = 1_000  # looked at, to tell of the one that lies deepest
SHOWN = 80  # characters of what a caller wrote that a sentence repeats
MAX_WORDS = 500  # characters of a text to match: engines split it again for every value

_INDEXES = {
    "keyword": models.PayloadSchemaType.KEYWORD,
    "integer": models.PayloadSchemaType.INTEGER,
    "float": models.PayloadSchemaType.FLOAT,
    "boolean": models.PayloadSchemaType.BOOL,
}
_WORDS = ("text", "text_any", "phrase", "prefix", "substring")
FieldType = Literal["keyword", "integer", "float", "boolean"]


def parse(raw: Mapping[str, Any] | None) -> models.Filter | None:
    """Qdrant's REST filter as sent by a caller. None or empty: no filter.

    Raises InvalidFilter with what is wrong and an example that works.
    """
    if not raw:
        return None
    _check_size(raw)
    try:
        parsed = models.Filter.model_validate(raw)
    except ValidationError as error:
        raise InvalidFilter(_sentence(_fault(raw, error))) from error
    for one in _conditions(parsed):
        if isinstance(one, models.FieldCondition):
            _check_field(one)
        if isinstance(one, models.HasIdCondition) and not all(map(_is_point_id, one.has_id)):
            raise InvalidFilter(_sentence("has_id takes ids of points, as qdrant-find shows them"))
    return parsed


def _check_size(raw: Any) -> None:
    """Refuse more than an engine should be asked, before time is spent on understanding it."""
    if len(list(islice(_entries(raw), MAX_CONDITIONS + 1))) > MAX_CONDITIONS:
        raise InvalidFilter(
            f"A filter has at most {MAX_CONDITIONS} conditions, those inside others counted: "
            'ask for less; {"match": {"any": [...]}} compares with many values at once.'
        )
    inside, values = [(raw, 0)], 0
    while inside:
        value, level = inside.pop()
        if level > MAX_DEPTH:
            raise InvalidFilter(
                f"query_filter is nested deeper than {MAX_DEPTH} levels: flatten it."
            )
        if isinstance(value, dict):
            if len(value) > MAX_KEYS:
                raise InvalidFilter(_sentence(f"no object in it has more than {MAX_KEYS} keys"))
            inside += [(item, level + 1) for item in value.values()]
        elif isinstance(value, list | tuple):
            values += len(value)
            if values > MAX_VALUES:
                raise InvalidFilter(
                    f"A filter's lists hold at most {MAX_VALUES:,} values together: ask for fewer."
                )
            inside += [(item, level + 1) for item in value if isinstance(item, dict | list)]


def _entries(raw: Any, level: int = 0) -> Iterator[Any]:
    """Whatever stands in a clause of a raw filter, at any depth that it may have."""
    if not isinstance(raw, dict) or level > MAX_DEPTH:
        return
    least = raw.get("min_should")
    clauses = [raw.get(name) for name in ("must", "should", "must_not")]
    clauses.append(least.get("conditions") if isinstance(least, dict) else None)
    for clause in clauses:
        for one in clause if isinstance(clause, list | tuple) else [clause] if clause else ():
            yield one
            yield from _entries(one, level + 1)
            nested = one.get("nested") if isinstance(one, dict) else None
            if isinstance(nested, dict) and "filter" in nested:
                yield from _entries(nested["filter"], level + 1)


def _check_field(one: models.FieldCondition) -> None:
    """Refuse a condition that asks nothing, or for a text as long as a text."""
    if one.model_fields_set == {"key"}:
        raise InvalidFilter(_sentence(f"nothing is asked of the field {one.key[:SHOWN]!r}"))
    said = (one.match.__dict__.get(kind, "") for kind in _WORDS) if one.match else ()
    if any(len(text) > MAX_WORDS for text in said):
        raise InvalidFilter(
            f"A text to match in a filter has at most {MAX_WORDS} characters: shorten it."
        )


def _is_point_id(one: object) -> bool:
    known = as_point_id(str(one))
    return isinstance(known, type(one)) and not isinstance(one, bool)


def _conditions(parsed: models.Filter) -> Iterator[Any]:
    """Every condition of a filter, those of filters inside it too."""
    least = parsed.min_should.conditions if parsed.min_should else None
    for clause in (parsed.must, parsed.should, parsed.must_not, least):
        for one in clause if isinstance(clause, list) else [clause] if clause else ():
            if isinstance(one, models.Filter):
                yield from _conditions(one)
            elif isinstance(one, models.NestedCondition):
                inside = list(_conditions(one.nested.filter))
                if len(inside) > MAX_INSIDE:
                    raise InvalidFilter(f"A nested filter has at most {MAX_INSIDE} conditions.")
                yield from inside
            else:
                yield one


def _sentence(fault: str) -> str:
    example = '{"must": [{"key": "metadata.project", "match": {"value": "atlas"}}]}'
    return f"query_filter is not a Qdrant filter: {fault}. Example: {example}"


def _fault(raw: Mapping[str, Any], error: ValidationError) -> str:
    unknown = sorted(set(raw) - set(models.Filter.model_fields))
    if unknown:
        return f"{unknown[0][:SHOWN]!r} is not one of must, should, must_not, min_should"
    if error.error_count() > MAX_FAULTS:
        return "most of it is no condition Qdrant knows"
    places = (_place(raw, one["loc"]) for one in error.errors(include_url=False))
    deepest = max(places, key=len)
    return f"{'.'.join(map(str, deepest))[:SHOWN]} is not a condition Qdrant knows"


def _place(raw: Any, location: Sequence[str | int]) -> list[str | int]:
    """The keys and places of `location` that the filter has; the rest are pydantic's types."""
    place: list[str | int] = []
    for part in location:
        inside = isinstance(raw, Mapping) and part in raw
        if inside or (isinstance(raw, list) and isinstance(part, int) and part < len(raw)):
            raw = raw[part]
            place.append(part)
    return place


def index_type(field_type: FieldType) -> models.PayloadSchemaType:
    """The payload index that makes a field of this type filterable."""
    return _INDEXES[field_type]
