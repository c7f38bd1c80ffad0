"""Small, closed JSON schemas, and a sentence for arguments that do not fit them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

_NAMED = frozenset({"properties", "$defs"})


def compact(schema: Any) -> Any:
    """The schema without what a model need not read: titles, null alternatives, null defaults.

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
        elif key != "title" and not (key == "default" and value in (None, [])):
            kept[key] = compact(value)
    return kept


def _without_null(choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rest = [compact(choice) for choice in choices if choice != {"type": "null"}]
    return rest[0] if len(rest) == 1 else {"anyOf": rest}


def explain(error: ValidationError, known: Sequence[str]) -> str:
    """What is wrong with a call's arguments, one sentence each, without what was sent."""
    return " ".join(
        dict.fromkeys(_sentence(one, known) for one in error.errors(include_url=False)[:3])
    )


def _sentence(error: Any, known: Sequence[str]) -> str:
    name = str(error["loc"][0]) if error["loc"] else "arguments"
    limits = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return f"There is no argument {name!r}; there are: {', '.join(known)}."
        case "missing":
            return f"{name} is required."
        case "greater_than_equal" | "less_than_equal":
            bound, value = next(iter(limits.items()))
            return f"{name} must be at {'least' if bound == 'ge' else 'most'} {value}."
        case "literal_error":
            return f"{name} must be {limits['expected']}."
        case "string_unicode":
            return f"{name} is not valid Unicode text: remove the broken characters."
        case "value_error":
            return str(limits["error"])
    wanted = error["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return f"{name} must be a valid {wanted}."
