"""What callers may filter by, turned into Qdrant's own filter."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ValidationError
from qdrant_client import models

from mcp_server_qdrant.errors import InvalidFilter

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
        return models.Filter.model_validate(raw)
    except ValidationError as error:
        raise InvalidFilter(_sentence(raw, error)) from error


def _sentence(raw: Mapping[str, Any], error: ValidationError) -> str:
    example = '{"must": [{"key": "metadata.project", "match": {"value": "atlas"}}]}'
    unknown = sorted(set(raw) - set(models.Filter.model_fields))
    if unknown:
        what = f"{unknown[0]!r} is not one of must, should, must_not, min_should"
    else:
        place = error.errors(include_input=False, include_url=False)[0]["loc"]
        what = f"{'.'.join(str(part) for part in place[:2])} is not a condition Qdrant knows"
    return f"query_filter is not a Qdrant filter: {what}. Example: {example}"


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
