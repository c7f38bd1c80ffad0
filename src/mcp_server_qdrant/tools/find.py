"""qdrant-find: its arguments, the search, and the page as an agent can afford it.

The arguments are a SearchRequest as agents write it, and fields of an operator.
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
    choices,
    json_object,
    one_or_many,
    sound,
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
    declared,
    offered,
)
from mcp_server_qdrant.core.notation import amount, called, document_id, listed_in, some
from mcp_server_qdrant.core.sentences import tokens
from mcp_server_qdrant.tools.boundary import ClosedTool, answer, services_of_tool
from mcp_server_qdrant.tools.rendering import (
    MAX_METADATA,
    as_data,
    as_meta,
    as_text,
    described,
)
from mcp_server_qdrant.tools.services import Services

FIND = (
    "Search the user's memory and documents by meaning and keywords, before you answer from "
    "memory. Returns passages with relevance 0..1 and ids for qdrant-get."
)
_TYPES = {"keyword": str, "integer": int, "float": float, "boolean": bool}
_RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}

Found = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "required": ["id", "collection"]}),
]


class FindOutput(BaseModel):
    """The result of qdrant-find: results best first, and sentences on them."""

    model_config = ConfigDict(extra="allow")

    results: list[Found]
    notes: list[str]


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
    return without_null(value) if isinstance(value, dict) else value


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
        """The search. Raises RequestError where its arguments do not fit together."""
        said = {name: getattr(self, name) for name in self.model_fields_set}
        if tuning := said.pop("tuning", None):
            said |= {name: getattr(tuning, name) for name in tuning.model_fields_set}
        said.pop("point_ids", None)
        one = said.pop("collection_name", None)
        said["collections"] = _wanted(self.collections, one)
        values = {field: said.pop(field.name, None) for field in self.filterable}
        said["query_filter"] = _filtered(self.query_filter, values)
        request = SearchRequest.model_construct(**said)
        if not request.query.strip() and request.within:
            raise RequestError(
                "query is empty: say what to look for within that text, or read it with qdrant-get."
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
        kind = Annotated[list[kind], BeforeValidator(one_or_many)]
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


async def find(asked: FindArguments) -> Annotated[CallToolResult, FindOutput]:
    """Search."""
    request = asked.request()
    services = await services_of_tool()
    if request.collections is None and not request.within:
        home = await services.catalog.home()
        request = request.model_copy(update={"collections": home or None})
    coming = await _coming(services, request.collections)
    try:
        page = await services.pipeline.search(request)
    except UnknownCollection as error:
        if error.name not in coming:
            raise
        raise RequestError(f"{coming[error.name]} Search again in a moment.") from error
    page = concluded(page, request, coming.values())
    data = as_data(page, request.mode, points=asked.point_ids)
    return answer(as_text(page, request.mode), data, as_meta(page))


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


async def _coming(services: Services, wanted: Sequence[str] | None) -> Mapping[str, str]:
    """The collections of a search that lack files still, and a sentence on each."""
    if not (coming := services.coming()):
        return {}
    names = wanted or await services.catalog.usual()
    return {name: coming[name] for name in coming if listed_in(names, name)}


def concluded(
    page: SearchPage, request: SearchRequest, coming: Collection[str] = (), room: int = MAX_METADATA
) -> SearchPage:
    """The page as far as an agent can afford it, with advice on what is not shown.

    Of whole texts the metadata is cut to `room` characters. Without a limit the results with
    passages are shown, and a few more on a line each, or as many whole texts as have room. Where
    files are still `coming`, nothing is ruled out.
    """
    results, notes = _fitting(page, request), [*coming, *page.notes]
    advice: list[str] = []
    more = page.more + len(page.results) - len(results)
    if coming and not results:
        notes = [note for note in notes if note != page.nothing]
    if request.mode == "full":
        documents, left = described([one.document for one in results], room)
        results = [replace(one, document=new) for one, new in zip(results, documents, strict=True)]
        parts = [called(document_id(one)) for one in documents if one.chunks > 1]
        advice += left
        if parts:
            ids = some(list(dict.fromkeys(parts)))
            advice.append(f"Parts of longer texts, which qdrant-get gives whole: id {ids}.")
    if not page.weak and (deep := next((n for n, one in enumerate(results, 1) if one.left), 0)):
        passages = amount(results[deep - 1].left, "more passage")
        if not request.within:
            advice.append(f"{passages} in result {deep}: give its id as within.")
        elif (request.limit or 0) < MAX_LIMIT:
            advice.append(f"{passages}: raise limit.")
    listed = any(one.relevance is None for one in results)  # its notes say how to see older texts
    if more and not page.weak and not listed and len(results) < MAX_LIMIT:
        advice.append(f"{amount(more, 'more result')}: raise limit.")
    return replace(page, results=results, more=more, notes=notes, advice=advice)


def _fitting(page: SearchPage, request: SearchRequest) -> list[Result]:
    """The results that have room; all where the caller said how many, or wants explanations."""
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
