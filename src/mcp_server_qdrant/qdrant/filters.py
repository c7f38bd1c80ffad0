"""Validates callers' filters and turns them into Qdrant's."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from pydantic import ValidationError
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.dates import DATE_KEY, LATEST, Period
from mcp_server_qdrant.core.errors import InvalidFilter
from mcp_server_qdrant.core.notation import as_point_id, parse_time
from mcp_server_qdrant.core.revision import Revision
from mcp_server_qdrant.qdrant.payload import EXPIRES

MAX_DEPTH = 16
MAX_CONDITIONS = 64
MAX_LENGTH = 100_000  # characters as JSON; must hold the ids of a list on the page
SHOWN = 80  # characters of the caller's text quoted in an error
MAX_WORDS = 500  # characters of a text to match, which engines tokenise for every value

CREATED, CHANGED = "created_at", "updated_at"
CLAUSES = ("must", "should", "must_not")
_WORDS = ("text", "text_any", "phrase", "prefix", "substring")
FieldType = Literal["keyword", "integer", "float", "boolean"]


def parse(raw: Mapping[str, Any] | None) -> models.Filter | None:
    """Qdrant's REST filter as sent by a caller. None or empty: no filter.

    Raises InvalidFilter with the fault and a working example.
    """
    if not raw:
        return None
    _check_size(raw)
    try:
        models.Filter.model_validate(raw)
    except ValidationError as error:
        raise InvalidFilter(_sentence(_fault(raw, error))) from error
    for _, condition in conditions(raw):
        _check_condition(condition)
    return models.Filter.model_validate(_split_tests(raw))


def _split_tests(raw: Any) -> Any:
    """Split conditions with several tests: a server would evaluate only one of them."""
    if isinstance(raw, list | tuple):
        return [_split_tests(item) for item in raw]
    if not isinstance(raw, dict):
        return raw
    tests = [name for name, test in raw.items() if name != "key" and test is not None]
    if "key" in raw and len(tests) > 1:
        return {"must": [{"key": raw["key"], name: raw[name]} for name in tests]}
    return {name: _split_tests(value) for name, value in raw.items()}


def equal(key: str, value: str | None) -> models.FieldCondition:
    """The condition that a field has this value."""
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def one_of(key: str, values: Iterable[str]) -> models.FieldCondition:
    """The condition that a field has one of these values."""
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


def has_id(ids: Iterable[Any]) -> models.HasIdCondition:
    """The condition that a point has one of these ids."""
    return models.HasIdCondition(has_id=list(ids))


def unchanged_since(seen: Revision) -> list[models.Condition]:
    """The conditions that the point still has the write time that was `seen`.

    The engine's form of `Revision.changed_since`; empty for a point of another tool.
    """
    if not seen.ours or (seen.updated_at is not None and parse_time(seen.updated_at) is None):
        return []
    if seen.updated_at is None:  # from a moved file without a date
        ever = _between(CHANGED, models.DatetimeRange(gte="0001-01-01T00:00:00Z"))
        return [models.Filter(must_not=[ever])]
    return [_between(CHANGED, models.DatetimeRange(gte=seen.updated_at, lte=seen.updated_at))]


def same_point(seen: Document, *more: models.Condition) -> models.Filter:
    """A filter for this point as it was `seen`."""
    return models.Filter(must=[has_id([seen.id]), *unchanged_since(seen.revision), *more])


def both(one: models.Filter, other: Any) -> models.Filter:
    """A filter for points that meet both; `other` is a filter or None."""
    return one if other is None else models.Filter(must=[one, other])


def restrict_to_period(
    where: models.Filter | None,
    period: Period | None,
    paths: Sequence[str],
    *,
    changed: bool = False,
    then: bool = False,
) -> models.Filter | None:
    """The filter, restricted to points with a date in this period at one of the paths.

    If a point has `doc.date`, its other dates do not count, with two exceptions: its last change
    with `changed`, and with `then` a text created before the period's end and changed after it.
    """
    if period is None:
        return where
    limits = models.DatetimeRange(gte=period.since, lt=period.until)
    own, *others = sorted(paths, key=lambda path: path != DATE_KEY)
    either: list[models.Condition] = [_between(path, limits) for path in others]
    if own == DATE_KEY:
        undated = models.IsEmptyCondition(is_empty=models.PayloadField(key=own))
        either = [models.Filter(must=[undated], should=either)] if either else []
        if changed and CHANGED in paths:
            any_day = _between(own, models.DatetimeRange(lte=LATEST))
            either.append(models.Filter(must=[any_day, _between(CHANGED, limits)]))
        if then and period.until:
            begun = _between(CREATED, models.DatetimeRange(lt=period.until))
            later = _between(own, models.DatetimeRange(gte=period.until))
            either.append(models.Filter(must=[begun, later]))
    return both(models.Filter(should=[*either, _between(own, limits)]), where)


def exclude_expired(where: models.Filter | None, now: datetime) -> models.Filter:
    """The filter, restricted to texts that have not expired."""
    over = _between(EXPIRES, models.DatetimeRange(lte=now))
    return both(models.Filter(must_not=[over]), where)


def _between(key: str, limits: models.DatetimeRange) -> models.FieldCondition:
    return models.FieldCondition(key=key, range=limits)


def _check_size(raw: Mapping[str, Any]) -> None:
    """Refuse a filter that is too large, before it is parsed."""
    if _is_deeper(raw, MAX_DEPTH):
        raise InvalidFilter(f"query_filter is nested deeper than {MAX_DEPTH} levels: flatten it.")
    if len(list(islice(conditions(raw), MAX_CONDITIONS + 1))) > MAX_CONDITIONS:
        raise InvalidFilter(
            f"A filter has at most {MAX_CONDITIONS} conditions, those inside others counted: "
            'ask for less; {"match": {"any": [...]}} compares with many values at once.'
        )
    if len(json.dumps(raw, default=str)) > MAX_LENGTH:
        raise InvalidFilter(f"A filter has at most {MAX_LENGTH:,} characters: ask for less.")


def _is_deeper(value: Any, levels: int) -> bool:
    """True if mappings and lists are nested deeper than this many levels."""
    inside = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple):
        return False
    return levels < 0 or any(_is_deeper(one, levels - 1) for one in inside)


def conditions(where: Any, inside: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (prefix, condition) for all conditions of a filter in REST form, at any depth.

    The prefix is the bare path of the enclosing nested filter with a dot at the end, "" outside.
    The filter may be any value that a caller sent.
    """
    if not isinstance(where, dict):
        return
    least = where.get("min_should")
    clauses = [where.get(name) for name in CLAUSES]
    clauses.append(least.get("conditions") if isinstance(least, dict) else None)
    for clause in clauses:
        for condition in clause if isinstance(clause, list | tuple) else [clause] if clause else ():
            yield inside, condition
            yield from conditions(condition, inside)
            nested = condition.get("nested") if isinstance(condition, dict) else None
            if isinstance(nested, dict) and "filter" in nested:
                path = f"{inside}{bare_path(str(nested.get('key')))}."
                yield from conditions(nested["filter"], path)


def bare_path(key: str) -> str:
    """A payload path without quotes and brackets: `"a"[].b` becomes a.b."""
    return ".".join(step.split("[")[0].strip('"') for step in key.split("."))


def _check_condition(condition: Mapping[str, Any]) -> None:
    """Refuse a condition that is empty, too long, or has an invalid id."""
    if condition.keys() == {"key"}:
        field = condition["key"][:SHOWN]
        raise InvalidFilter(_sentence(f"the condition on the field {field!r} is empty"))
    match = condition.get("match") or {}
    if any(len(match.get(kind) or "") > MAX_WORDS for kind in _WORDS):
        raise InvalidFilter(
            f"A text to match in a filter has at most {MAX_WORDS} characters: shorten it."
        )
    if not all(map(_is_point_id, condition.get("has_id") or ())):
        raise InvalidFilter(_sentence("has_id takes ids of points, as qdrant-find shows them"))


def _is_point_id(value: object) -> bool:
    known = as_point_id(str(value))
    return isinstance(known, type(value)) and not isinstance(value, bool)


def _sentence(fault: str) -> str:
    example = '{"must": [{"key": "metadata.project", "match": {"value": "atlas"}}]}'
    return f"query_filter is not a Qdrant filter: {fault}. Example: {example}"


def _fault(raw: Mapping[str, Any], error: ValidationError) -> str:
    unknown = sorted(set(raw) - set(models.Filter.model_fields))
    if unknown:
        return f"{unknown[0][:SHOWN]!r} is not one of must, should, must_not, min_should"
    places = (_location_in(raw, fault["loc"]) for fault in error.errors(include_url=False))
    deepest = max(places, key=len)
    return f"{'.'.join(map(str, deepest))[:SHOWN]} is not a condition Qdrant knows"


def _location_in(raw: Any, location: Sequence[str | int]) -> list[str | int]:
    """The parts of `location` that exist in the filter; the others are pydantic's type names."""
    place: list[str | int] = []
    for part in location:
        inside = isinstance(raw, Mapping) and part in raw
        if inside or (isinstance(raw, list) and isinstance(part, int) and part < len(raw)):
            raw = raw[part]
            place.append(part)
    return place


def index_type(field_type: FieldType) -> models.PayloadSchemaType:
    """The payload index that makes a field of this type filterable."""
    return models.PayloadSchemaType("bool" if field_type == "boolean" else field_type)
