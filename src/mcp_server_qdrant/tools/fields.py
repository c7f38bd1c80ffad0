"""The parameters of qdrant-find as the SDK sees them, with the operator's own filter fields."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from mcp_server_qdrant.core.errors import ConfigError, RequestError
from mcp_server_qdrant.core.fields import Word, bounds, choices, json_object, sound
from mcp_server_qdrant.core.find import FilterableField, Tuning, declared, offered

_TYPES = {"keyword": str, "integer": int, "float": float, "boolean": bool}
_RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}

# The official server's name for a single collection.
COLLECTION_NAME = inspect.Parameter(
    "collection_name", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Word | None
)
# Accepted as arguments of their own, as they were before there was `tuning`.
UNLISTED = frozenset({*Tuning.model_fields, COLLECTION_NAME.name})


def find_parameters() -> list[inspect.Parameter]:
    """The parameters of qdrant-find, in the order in which agents see them."""
    each = [_declared(name, info) for name, info in declared().items()]
    listed = [one for one in each if one.name not in UNLISTED]
    unlisted = [one for one in each if one.name in UNLISTED]
    return [*listed, _tuning(unlisted), *unlisted, COLLECTION_NAME]


def _declared(name: str, info: FieldInfo) -> inspect.Parameter:
    """A declared parameter; the default of a preference is left to the server's settings."""
    default = None if offered(info) else info.get_default()
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if info.is_required() else default,
        annotation=Annotated[
            info.annotation, *info.metadata, Field(description=_description(info))
        ],
    )


def _tuning(parameters: Sequence[inspect.Parameter]) -> inspect.Parameter:
    """One object of these, any of which may be null; its description stands for their schemas."""
    fields: dict[str, Any] = {one.name: (one.annotation | None, None) for one in parameters}
    model = create_model("Tuning", __config__=ConfigDict(extra="forbid"), **fields)
    described = "; ".join(_in_words(name, declared()[name]) for name in fields)
    schema = {"type": "object", "description": f"Seldom needed: {described}"}
    kind = Annotated[model | None, BeforeValidator(json_object), WithJsonSchema(schema)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter("tuning", keyword, default=None, annotation=kind)


def _in_words(name: str, info: FieldInfo) -> str:
    """The parameter with its values and its description."""
    limits = bounds(info)
    values = "|".join(choices(info.annotation))
    values = f"{limits['ge']:g}-{limits['le']:g}" if limits else values
    return f"{name} {values}".rstrip() + f" ({_description(info)})"


def _description(info: FieldInfo) -> str | None:
    shown = offered(info)
    return shown.description if shown else info.description


def with_parameters(
    find: Callable[..., Awaitable[Any]], fields: Sequence[FilterableField], *, keep_filter: bool
) -> Callable[..., Awaitable[Any]]:
    """`find` with its declared parameters and one per configured field.

    The fields stand in place of `query_filter`, or beside it.
    """
    parameters = [p for p in find_parameters() if p.name != "query_filter" or keep_filter]
    parameters += [_parameter(field) for field in fields]
    names = [parameter.name for parameter in parameters]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"FILTERABLE_FIELDS: qdrant-find has an argument {twice!r} already.")
    parameters.sort(key=lambda p: p.default is not inspect.Parameter.empty)

    @functools.wraps(find)
    async def call(**arguments: Any) -> Any:
        values = {field: arguments.pop(field.name, None) for field in fields}
        must = [conditions(field, value) for field, value in values.items() if value is not None]
        if tuning := arguments.pop("tuning", None):
            arguments |= tuning.model_dump(exclude_none=True)
        raw = dict(arguments.pop("query_filter", None) or {})
        for where, clause in must:
            raw[where] = [*_listed(raw.get(where)), clause]
        return await find(**arguments, query_filter=raw or None)

    signature = inspect.signature(find).replace(parameters=parameters)
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters} | {
        "return": signature.return_annotation
    }
    del call.__wrapped__
    return call


def _parameter(field: FilterableField) -> inspect.Parameter:
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


def conditions(field: FilterableField, value: Any) -> tuple[str, dict[str, Any]]:
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
