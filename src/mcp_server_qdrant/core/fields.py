"""Lenient types for tool arguments.

Agents send lists and objects as JSON strings, single items for lists, and numbers for ids. These
types accept that, and refuse NUL characters and broken Unicode.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BeforeValidator, Field
from pydantic_core import ErrorDetails

from mcp_server_qdrant.core.notation import SURROGATE

MAX_WORD = 1_000  # characters of a name, a title or an id
MAX_ITEMS = 256  # of a list of names
MAX_VALUES = 100_000  # in one argument, at any depth
# A Unicode noncharacter that marks undecodable input; texts may not contain it.
BROKEN = "\uffff"


def without_null(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drop null values: null means the same as omitted."""
    return {name: value for name, value in values.items() if value is not None}


def is_nothing(value: Any) -> bool:
    """True for null and what models send instead of it: "", "null", [""], ["null"]."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value is None or (isinstance(value, str) and value.strip() in ("", "null"))


def choices(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal or an optional Literal; () for other types."""
    literal = next((one for one in (kind, *get_args(kind)) if get_origin(one) is Literal), None)
    return get_args(literal)


def checked(value: Any) -> Any:
    """Return the value. Raises ValueError for NUL, broken Unicode, or too many nested values."""
    inside, count = [value], 0
    while inside:
        item = inside.pop()
        if isinstance(item, str):
            if not (item.isascii() and "\x00" not in item):
                _check(item)
        elif isinstance(item, (dict, list)):  # `dict | list` would take twice as long
            count += len(item)
            if count > MAX_VALUES:
                raise ValueError(f"It has more than {MAX_VALUES:,} values: send fewer.")
            inside += [*item, *item.values()] if isinstance(item, dict) else item
    return value


def _check(text: str) -> None:
    if "\x00" in text:
        raise ValueError("The text contains a NUL character: remove it.")
    if BROKEN in text or SURROGATE.search(text):
        raise ValueError("The text is broken Unicode (a lone surrogate): send valid text.")


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_WORD:
        raise ValueError(f"It has more than {MAX_WORD:,} characters: shorten it.")
    return checked(value)


def json_object(value: Any) -> Any:
    """An object, or one parsed from JSON; None for a blank string."""
    if not isinstance(value, str):
        return checked(value)
    if not value.strip():
        return None
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("An object was expected, but this string is not a JSON object.") from None
    return checked(read)


def one_or_many(value: Any) -> Any:
    """A list, one parsed from JSON, or a list of the single item given."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = [value]
    if isinstance(value, str | int) and not isinstance(value, bool):
        value = [value]
    return checked(value)


def _few(value: Any) -> Any:
    value = one_or_many(value)
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        raise ValueError(f"It has more than {MAX_ITEMS} items: send fewer.")
    return value


def _split(value: Any) -> Any:
    """Tags in one string are separated by commas."""
    named = isinstance(value, str) and not value.lstrip().startswith("[")
    return _few([tag.strip() for tag in value.split(",")] if named else value)


def _as_text(value: Any) -> Any:
    number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if number else _short(value)


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Text = Annotated[str, BeforeValidator(checked)]
Word = Annotated[str, BeforeValidator(_short)]  # a name, a title
Words = Annotated[tuple[Word, ...] | None, BeforeValidator(_few)]
Tags = Annotated[tuple[Word, ...] | None, BeforeValidator(_split)]
Id = Annotated[str, BeforeValidator(_as_text)]  # a string here; other tools may use numbers
JsonObject = Annotated[dict[str, Any] | None, BeforeValidator(json_object)]

_KINDS = {  # pydantic's error type -> what the value must be
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), "a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing"), "a date and time"
    ),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "dataclass_type"), "an object"
    ),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    "string_type": "a string",
    "string_unicode": "valid Unicode text",
}


def requirement(fault: ErrorDetails) -> str:
    """The predicate of a sentence on a value that pydantic refused; never quotes the value."""
    limits = fault.get("ctx", {})
    if kind := _KINDS.get(fault["type"]):
        return f"must be {kind}"
    match fault["type"]:
        case "value_error":
            return str(limits["error"]).rstrip(".")
        case "missing":
            return "is required"
        case "literal_error":
            return f"must be {limits['expected']}"
        case "too_short" | "string_too_short":
            return "must not be empty"
        case "too_long":
            return f"must have at most {limits['max_length']} items"
        case "string_pattern_mismatch":
            return f"must match {limits['pattern']}"
    said = fault["msg"].replace("Input should be", "must be")
    said = said.replace("greater than or equal to", "at least")
    return said.replace("less than or equal to", "at most")
