"""Arguments as callers really send them, and the filter fields that an operator configured."""

import functools
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from mcp_server_qdrant.core.errors import ConfigError, RequestError

MAX_QUERY = 8_000  # characters
MAX_WORD = 1_000  # characters of a name, a title or an id
MAX_ITEMS = 256  # of a list of names
MAX_VALUES = 100_000  # in one argument, at any depth
# A noncharacter, which no text may hold: stands for what could not be decoded.
BROKEN = "\uffff"
SURROGATE = re.compile("[\ud800-\udfff]")

FieldType = Literal["keyword", "integer", "float", "boolean"]

_TYPES: dict[FieldType, type] = {"keyword": str, "integer": int, "float": float, "boolean": bool}
_RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


@dataclass(frozen=True, slots=True)
class FieldParameter:
    """One payload field offered as a parameter of qdrant-find."""

    name: str
    description: str
    field_type: FieldType
    condition: str
    required: bool = False


def sound(value: Any) -> Any:
    """The value, refused where a text in it holds what no index, file or terminal should see."""
    inside, held = [value], 0
    while inside:
        one = inside.pop()
        if isinstance(one, str):
            if not (one.isascii() and "\x00" not in one):
                _check(one)
        elif isinstance(one, (dict, list)):  # a union of them takes twice as long
            held += len(one)
            if held > MAX_VALUES:
                raise ValueError(f"It holds more than {MAX_VALUES:,} values: send less.")
            inside += [*one, *one.values()] if isinstance(one, dict) else one
    return value


def _check(text: str) -> None:
    if "\x00" in text:
        raise ValueError("The text contains a NUL character: remove it.")
    if BROKEN in text or SURROGATE.search(text):
        raise ValueError("The text is broken Unicode (a lone surrogate): send valid text.")


def short(value: Any) -> Any:
    """A name, a title or an id, refused where it is as long as a text."""
    if isinstance(value, str) and len(value) > MAX_WORD:
        raise ValueError(f"It has more than {MAX_WORD:,} characters: shorten it.")
    return sound(value)


def json_object(value: Any) -> Any:
    """Many agents send an object as a JSON string; it is taken for what it holds."""
    if not isinstance(value, str):
        return sound(value)
    if not value.strip():
        return None
    try:
        held = json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("An object was expected, and this string is not one in JSON.") from None
    return sound(held)


def one_or_many(value: Any) -> Any:
    """A list, given as such, as a JSON string, or as the one item that it would hold."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = [value]
    if isinstance(value, str | int) and not isinstance(value, bool):
        value = [value]
    return sound(value)


def few(value: Any) -> Any:
    """The same for names."""
    value = one_or_many(value)
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        raise ValueError(f"It has more than {MAX_ITEMS} items: send fewer.")
    return value


def as_text(value: Any) -> Any:
    """Ids are texts to us; other tools number theirs."""
    number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if number else short(value)


def with_fields(
    find: Callable[..., Awaitable[Any]], fields: Sequence[FieldParameter], *, keep_filter: bool
) -> Callable[..., Awaitable[Any]]:
    """`find` with one parameter per configured field, in place of or beside `query_filter`."""
    if not fields and keep_filter:
        return find
    signature = inspect.signature(find)
    taken = [*signature.parameters, *(field.name for field in fields)]
    if twice := next((name for name in taken if taken.count(name) > 1), None):
        raise ConfigError(f"FILTERABLE_FIELDS: qdrant-find has an argument {twice!r} already.")
    kept = [p for n, p in signature.parameters.items() if n != "query_filter" or keep_filter]
    added = [_parameter(field) for field in fields]
    ordered = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*kept, *added)]
    ordered.sort(key=lambda p: p.default is not inspect.Parameter.empty)

    @functools.wraps(find)
    async def call(**arguments: Any) -> Any:
        asked = {field.name: arguments.pop(field.name, None) for field in fields}
        must = [conditions(f, asked[f.name]) for f in fields if asked[f.name] is not None]
        raw = dict(arguments.pop("query_filter", None) or {})
        for where, clause in must:
            raw[where] = [*_listed(raw.get(where)), clause]
        return await find(**arguments, query_filter=raw or None)

    call.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in ordered} | {
        "return": signature.return_annotation
    }
    del call.__wrapped__
    return call


def _parameter(field: FieldParameter) -> inspect.Parameter:
    kind: Any = _TYPES[field.field_type]
    if field.condition in ("any", "except"):
        kind = list[kind]
    annotation = kind if field.required else kind | None
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.required else None,
        annotation=Annotated[annotation, Field(description=field.description)],
    )


def conditions(field: FieldParameter, value: Any) -> tuple[str, dict[str, Any]]:
    """One field compared with a caller's value: (must or must_not, the condition in REST form).

    Fields are those of `metadata`, as in the official server.
    """
    try:
        sound(value)
    except ValueError as error:
        raise RequestError(str(error)) from None
    key = f"metadata.{field.name}"
    if field.condition in _RANGES:
        return "must", {"key": key, "range": {_RANGES[field.condition]: value}}
    if field.condition in ("any", "except"):
        return "must", {"key": key, "match": {field.condition: value}}
    where = "must_not" if field.condition == "!=" else "must"
    if field.field_type == "float":
        return where, {"key": key, "range": {"gte": value, "lte": value}}
    return where, {"key": key, "match": {"value": value}}


def _listed(clauses: Any) -> list[Any]:
    if clauses is None:
        return []
    return list(clauses) if isinstance(clauses, list) else [clauses]
