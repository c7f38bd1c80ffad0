"""The arguments of qdrant-find: a SearchRequest as agents write it, and fields of an operator."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from pydantic import BeforeValidator, Field, WithJsonSchema, create_model
from typing_extensions import override

from mcp_server_qdrant.core.errors import ConfigError, RequestError
from mcp_server_qdrant.core.fields import Word, choices, json_object, sound
from mcp_server_qdrant.core.find import (
    MAX_QUERY,
    FilterableField,
    SearchRequest,
    Tuning,
    declared,
    offered,
)

_TYPES = {"keyword": str, "integer": int, "float": float, "boolean": bool}
_RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
BROWSED = ("since", "until", "tags", "query_filter")  # enough to list the newest texts


def _in_words(name: str) -> str:
    """A parameter with its values and its description."""
    info = declared()[name]
    shown = offered(info)
    limits = [
        getattr(one, end) for end in ("ge", "le") for one in info.metadata if hasattr(one, end)
    ]
    values = "-".join(f"{limit:g}" for limit in limits) or "|".join(choices(info.annotation))
    described = (shown and shown.description) or info.description
    return f"{name} {values}".rstrip() + f" ({described})"


def _said(value: Any) -> Any:
    """An object from its JSON, without what is null."""
    value = json_object(value)
    if not isinstance(value, dict):
        return value
    return {name: one for name, one in value.items() if one is not None}


_SELDOM = "; ".join(_in_words(name) for name in declared() if name in Tuning.model_fields)


class FindArguments(SearchRequest, ArgModelBase):
    """A search as agents ask for it. Those of `tuning` are arguments of their own too."""

    filterable: ClassVar[tuple[FilterableField, ...]] = ()

    tuning: Annotated[
        Tuning | None,
        BeforeValidator(_said),
        WithJsonSchema({"type": "object", "description": f"Seldom needed: {_SELDOM}"}),
    ] = None
    collection_name: Word | None = None  # the official server's name for a single collection
    point_ids: bool = False  # in place of those of texts, for programs

    @override
    def model_dump_one_level(self) -> dict[str, Any]:
        """The arguments of the tool's function: this request."""
        return {"asked": self}

    def request(self) -> SearchRequest:
        """The search. Raises RequestError where there is nothing to look for or to list."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if tuning := given.pop("tuning", None):
            given |= {name: getattr(tuning, name) for name in tuning.model_fields_set}
        given.pop("point_ids", None)
        one = given.pop("collection_name", None)
        given["collections"] = _wanted(self.collections, one)
        values = {field: given.pop(field.name, None) for field in self.filterable}
        given["query_filter"] = _filtered(self.query_filter, values)
        request = SearchRequest.model_construct(**given)
        if not request.query.strip() and request.within:
            raise RequestError(
                "query is empty: say what to look for within that text, or read it with qdrant-get."
            )
        if not (request.query.strip() or any(map(given.get, (*BROWSED, "collections")))):
            raise RequestError(
                "query is empty: say what to look for, or give collections, since, until, tags or "
                "query_filter to list the newest texts."
            )
        if len(request.query) > MAX_QUERY:
            raise RequestError(f"query is longer than {MAX_QUERY} characters: ask for less.")
        return request


# Accepted as arguments of their own, as they were before there was `tuning`.
UNLISTED = frozenset({*Tuning.model_fields, "collection_name", "point_ids"})


def arguments_with(fields: Sequence[FilterableField]) -> type[FindArguments]:
    """The arguments with one for each configured field. Raises ConfigError for a name twice."""
    # An operator's own tags stand in the place of ours.
    taken = [name for name in FindArguments.model_fields if name != "tags"]
    names = [*taken, *(field.name for field in fields)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"FILTERABLE_FIELDS: qdrant-find has an argument {twice!r} already.")
    own: dict[str, Any] = {field.name: _argument(field) for field in fields}
    made = create_model("FindArguments", __base__=FindArguments, **own)
    made.filterable = tuple(fields)
    return made


def _argument(field: FilterableField) -> tuple[Any, Any]:
    """Its type and its default."""
    kind: Any = _TYPES[field.field_type]
    if field.condition in ("any", "except"):
        kind = list[kind]
    annotation: Any = Annotated[
        kind if field.required else kind | None, Field(description=field.description)
    ]
    return annotation, ... if field.required else None


def _wanted(collections: Sequence[str] | None, one: str | None) -> tuple[str, ...] | None:
    if collections and one and list(collections) != [one]:
        raise RequestError("Give collections or collection_name, not both.")
    if collections is not None and not collections:
        raise RequestError('collections is empty: name some, or ["*"] for all, or leave it out.')
    names = (one,) if one else collections
    return tuple(names) if names else None


def _filtered(
    raw: dict[str, Any] | None, values: dict[FilterableField, Any]
) -> dict[str, Any] | None:
    """The filter with a condition for each field that has a value."""
    made = dict(raw or {})
    for field, value in values.items():
        if value is not None:
            where, clause = conditions(field, value)
            made[where] = [*_listed(made.get(where)), clause]
    return made or None


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
