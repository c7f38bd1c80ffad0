"""Small, closed JSON schemas, and a sentence for arguments that do not fit them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mcp_server_qdrant.core.fields import wanted

_NAMED = frozenset({"properties", "$defs"})
_SAID_ANYWAY: tuple[tuple[str, Any], ...] = (
    *(("default", None), ("default", [])),
    ("additionalProperties", True),
)


def compact(schema: Any) -> Any:
    """The schema without titles, null alternatives and empty defaults, which no model needs.

    Null and omitted mean the same to every tool, and are still accepted.
    """
    if isinstance(schema, list):
        return [compact(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            kept[key] = {name: compact(item) for name, item in value.items()}
        elif key == "anyOf":
            kept |= _without_null(value)
        elif key != "title" and (key, value) not in _SAID_ANYWAY:
            kept[key] = compact(value)
    return kept


def _without_null(choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    others = [compact(choice) for choice in choices if choice != {"type": "null"}]
    return others[0] if len(others) == 1 else {"anyOf": others}


def explain(error: ValidationError) -> str:
    """The faults of a call's arguments, one sentence each, without the values."""
    faults = error.errors(include_url=False, include_input=False)
    return " ".join(dict.fromkeys(map(_sentence, faults[:3])))


def _sentence(fault: ErrorDetails) -> str:
    name, *inside = map(str, fault["loc"] or ["arguments"])
    field = next((one for one in inside if one.isidentifier()), None)
    if fault["type"] == "extra_forbidden":
        return f"{name} has no {field!r}: see its description."
    name = f"{name}.{field}" if field else name
    said = wanted(fault)
    return f"{name}: {said}." if fault["type"] == "value_error" else f"{name} {said}."
