"""qdrant-find: parses the arguments, searches, and trims the page to an affordable size.

The arguments are the fields of SearchRequest and the operator's filterable fields.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp.types import CallToolResult
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model
from typing_extensions import override

from mcp_server_qdrant.core.datatypes import Result, SearchPage
from mcp_server_qdrant.core.errors import ConfigError, RequestError, UnknownCollection
from mcp_server_qdrant.core.fields import (
    Word,
    checked,
    choices,
    json_object,
    one_or_many,
    without_null,
)
from mcp_server_qdrant.core.find import (
    LINES,
    MAX_LIMIT,
    MAX_QUERY,
    WEAK,
    WHOLE,
    FilterableField,
    SearchRequest,
    Tuning,
    find_parameters,
)
from mcp_server_qdrant.core.notation import cite, document_id, first_few, listed_in, plural
from mcp_server_qdrant.core.sentences import tokens
from mcp_server_qdrant.tools.boundary import ClosedTool, make_result, services_of_tool
from mcp_server_qdrant.tools.rendering import (
    MAX_METADATA,
    as_data,
    as_meta,
    as_text,
    limit_metadata,
)
from mcp_server_qdrant.tools.services import Services

FIND = (
    "Search the user's memory and documents by meaning and keywords, before you answer from "
    "memory. Returns passages with relevance 0..1 and ids for qdrant-get."
)
_TYPES = {"keyword": str, "integer": int, "float": float, "boolean": bool}
_RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}

Found = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "required": ["id", "collection"]})
]


class FindOutput(BaseModel):
    """The result of qdrant-find: results, best first, and notes."""

    model_config = ConfigDict(extra="allow")

    results: list[Found]
    notes: list[str]


def _in_words(name: str) -> str:
    """The name of a parameter with its values and its description."""
    info = find_parameters()[name]
    limits = [
        getattr(one, end)
        for end in ("gt", "ge", "le")
        for one in info.metadata
        if hasattr(one, end)
    ]
    values = "-".join(f"{limit:g}" for limit in limits) or "|".join(choices(info.annotation))
    return f"{name} {values}".rstrip() + f" ({info.description})"


def _parse_tuning(value: Any) -> Any:
    """The object in a JSON string, without null values."""
    value = json_object(value)
    return without_null(value) if isinstance(value, dict) else value


_SELDOM = "; ".join(_in_words(name) for name in find_parameters() if name in Tuning.model_fields)


class FindArguments(SearchRequest, ArgModelBase):
    """The arguments of qdrant-find. Fields of `tuning` are accepted as arguments too."""

    filterable: ClassVar[tuple[FilterableField, ...]] = ()

    tuning: Annotated[
        Tuning | None,
        BeforeValidator(_parse_tuning),
        WithJsonSchema({"type": "object", "description": f"Seldom needed: {_SELDOM}"}),
    ] = None
    collection_name: Word | None = None  # the official server's argument
    point_ids: bool = False  # return point ids instead of text ids, for programs

    @override
    def model_dump_one_level(self) -> dict[str, Any]:
        """The arguments of the tool's function: this object."""
        return {"asked": self}

    def request(self) -> SearchRequest:
        """The search request. Raises RequestError if arguments contradict each other."""
        said = {name: getattr(self, name) for name in self.model_fields_set}
        if tuning := said.pop("tuning", None):
            said |= {name: getattr(tuning, name) for name in tuning.model_fields_set}
        said.pop("point_ids", None)
        one = said.pop("collection_name", None)
        said["collections"] = _merge_names(self.collections, one)
        values = {field: said.pop(field.name, None) for field in self.filterable}
        said["query_filter"] = _add_conditions(self.query_filter, values)
        request = SearchRequest.model_construct(**said)
        if not request.query.strip() and request.within:
            raise RequestError(
                "query is empty: say what to look for within that text, or read it with qdrant-get."
            )
        if len(request.query) > MAX_QUERY:
            raise RequestError(f"query is longer than {MAX_QUERY} characters: ask for less.")
        return request


# Accepted as arguments of their own, so that the schema stays small.
UNLISTED = frozenset({*Tuning.model_fields, "collection_name", "point_ids"})


def arguments_with(fields: Sequence[FilterableField]) -> type[FindArguments]:
    """The arguments with the configured fields. Raises ConfigError for duplicate names."""
    # A configured field `tags` replaces ours.
    taken = [name for name in FindArguments.model_fields if name != "tags"]
    names = [*taken, *(field.name for field in fields)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"FILTERABLE_FIELDS: qdrant-find has an argument {twice!r} already.")
    own: dict[str, Any] = {field.name: _argument(field) for field in fields}
    made = create_model("FindArguments", __base__=FindArguments, **own)
    made.filterable = tuple(fields)
    return made


def _argument(field: FilterableField) -> tuple[Any, Any]:
    """The type and the default of a field's argument."""
    kind: Any = _TYPES[field.field_type]
    if field.condition in ("any", "except"):
        kind = Annotated[list[kind], BeforeValidator(one_or_many)]
    annotation: Any = Annotated[
        kind if field.required else kind | None, Field(description=field.description)
    ]
    return annotation, ... if field.required else None


def _merge_names(collections: Sequence[str] | None, one: str | None) -> tuple[str, ...] | None:
    if collections and one and list(collections) != [one]:
        raise RequestError("Give collections or collection_name, not both.")
    if collections is not None and not collections:
        raise RequestError('collections is empty: name some, or ["*"] for all, or leave it out.')
    names = (one,) if one else collections
    return tuple(names) if names else None


def _add_conditions(
    raw: dict[str, Any] | None, values: dict[FilterableField, Any]
) -> dict[str, Any] | None:
    """The filter plus a condition for each field that has a value."""
    made = dict(raw or {})
    for field, value in values.items():
        if value is not None:
            where, clause = conditions(field, value)
            held = made.get(where) or []
            made[where] = [*(held if isinstance(held, list) else [held]), clause]
    return made or None


def conditions(field: FilterableField, value: Any) -> tuple[str, dict[str, Any]]:
    """("must" or "must_not", condition in REST form) for a value of a configured field.

    Fields are keys of `metadata`, as in the official server.
    """
    try:
        checked(value)
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


async def find(asked: FindArguments) -> Annotated[CallToolResult, FindOutput]:
    """Search."""
    request = asked.request()
    services = await services_of_tool()
    coming = await _find_unfinished(services, request.collections)
    try:
        page = await services.pipeline.search(request)
    except UnknownCollection as error:
        if error.name not in coming:
            raise
        raise RequestError(f"{coming[error.name]} Search again in a moment.") from error
    page = trim_page(page, request, coming.values())
    data = as_data(page, request.mode, points=asked.point_ids)
    return make_result(as_text(page, request.mode), data, as_meta(page))


def make_find(
    fields: Sequence[FilterableField], description: str | None, *, any_filter: bool
) -> ClosedTool:
    """The tool to register, with an argument for each of the operator's fields."""
    arguments = arguments_with(fields)
    tool = ClosedTool.make(
        find,
        "qdrant-find",
        description or FIND,
        write=False,
        unlisted=UNLISTED,
        arguments=arguments,
    )
    if not any_filter:
        del tool.parameters["properties"]["query_filter"]
    return tool


async def _find_unfinished(services: Services, wanted: Sequence[str] | None) -> Mapping[str, str]:
    """Collections of the search that are still being filled -> a sentence on each."""
    if not (coming := services.unfinished()):
        return {}
    names = wanted or await services.catalog.default_names()
    return {name: coming[name] for name in coming if listed_in(names, name)}


def trim_page(
    page: SearchPage, request: SearchRequest, coming: Collection[str] = (), room: int = MAX_METADATA
) -> SearchPage:
    """Trim the page to an affordable size, with advice on what is not shown.

    Without a limit it shows the results with passages and a few more as single lines, or as many
    whole texts as fit. The metadata of whole texts is cut to `room` characters. While files are
    still `coming`, the page does not say that nothing was found.
    """
    results, notes = _fit(page, request), [*coming, *page.notes]
    advice: list[str] = []
    more = page.more + len(page.results) - len(results)
    if coming and not results:
        notes = [note for note in notes if note != page.nothing]
    if request.mode == "full":
        documents, left = limit_metadata([one.document for one in results], room)
        results = [replace(one, document=new) for one, new in zip(results, documents, strict=True)]
        parts = [cite(document_id(one)) for one in documents if one.chunks > 1]
        advice += left
        if parts:
            ids = first_few(list(dict.fromkeys(parts)))
            advice.append(f"Parts of longer texts, which qdrant-get gives whole: id {ids}.")
    if not page.weak and (deep := next((n for n, one in enumerate(results, 1) if one.left), 0)):
        passages = plural(results[deep - 1].left, "more passage")
        if not request.within:
            advice.append(f"{passages} in result {deep}: give its id as within.")
        elif (request.limit or 0) < MAX_LIMIT:
            advice.append(f"{passages}: raise limit.")
    listed = any(
        one.relevance is None for one in results
    )  # a listing has its own note on older texts
    if more and not page.weak and not listed and len(results) < MAX_LIMIT:
        advice.append(f"{plural(more, 'more result')}: raise limit.")
    return replace(page, results=results, more=more, notes=notes, advice=advice)


def _fit(page: SearchPage, request: SearchRequest) -> list[Result]:
    """The results that fit; all if the caller gave a limit or asked for explanations."""
    results, full = list(page.results), request.mode == "full"
    if request.limit is not None or request.explain:
        return results
    if not full:
        last = max((n for n, one in enumerate(results, 1) if one.passages), default=0)
        results = results[: last + LINES]
    if full or page.weak:
        most = WEAK if page.weak else WHOLE
        while results[1:] and tokens(as_text(replace(page, results=results), request.mode)) > most:
            results.pop()
    return results
