"""Small, closed JSON schemas, and a sentence for arguments that do not fit them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

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


_KINDS = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a number",
    "dict_type": "an object",
    "tuple_type": "a valid list",
    "string_unicode": "valid Unicode text",
}


def _sentence(error: Any) -> str:
    name, *inside = map(str, error["loc"] or ["arguments"])
    whole, field = name, next((one for one in inside if one.isidentifier()), None)
    name = f"{whole}.{field}" if field else whole
    limits = error.get("ctx", {})
    if kind := _KINDS.get(error["type"]):
        return f"{name} must be {kind}."
    match error["type"]:
        case "extra_forbidden":
            return f"{whole} has no {field!r}: see its description."
        case "missing":
            return f"{name} is required."
        case "greater_than_equal" | "less_than_equal":
            bound, value = next(iter(limits.items()))
            return f"{name} must be at {'least' if bound == 'ge' else 'most'} {value}."
        case "literal_error":
            return f"{name} must be {limits['expected']}."
        case "value_error":
            return f"{name}: {limits['error']}"
        case "too_short":
            return f"{name} must not be empty."
        case "too_long":
            return f"{name} must have at most {limits['max_length']} items."
    wanted = error["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return f"{name} must be a valid {wanted}."
