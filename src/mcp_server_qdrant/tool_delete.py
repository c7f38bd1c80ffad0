"""qdrant-delete: documents by ids; by filter only what a person or an exact number confirmed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Protocol

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import CallToolResult
from pydantic import BaseModel, BeforeValidator, Field

from mcp_server_qdrant import tool_text
from mcp_server_qdrant.datatypes import Document
from mcp_server_qdrant.errors import QdrantMcpError, RequestError
from mcp_server_qdrant.tool_boundary import AsyncTool, answer
from mcp_server_qdrant.tool_fields import as_text, json_object, one_or_many, sound

MAX_IDS = 50
LINE = 80
DELETE = (
    "Delete for good: the documents of ids (a part's id stands for its whole document), or what a "
    "filter matches in one collection."
)

Ids = Annotated[
    list[Annotated[str, BeforeValidator(as_text)]] | None,
    BeforeValidator(one_or_many),
    Field(min_length=1, max_length=MAX_IDS),
]
Filter = Annotated[
    dict[str, Any] | None,
    BeforeValidator(json_object),
    Field(description="Answers with the count first; {} matches all"),
]
Name = Annotated[str | None, BeforeValidator(sound)]
Count = Annotated[int | None, Field(ge=1, description="The count that was answered: delete them")]


class Deleted(Protocol):
    """What was deleted by ids."""

    @property
    def documents(self) -> Sequence[Document]:
        """Of each document one part."""

    @property
    def missing(self) -> Sequence[str]:
        """The ids that are nowhere."""


class Matching(Protocol):
    """What a filter matches."""

    @property
    def collection(self) -> str:
        """Where."""

    @property
    def count(self) -> int:
        """Exactly so many points."""

    @property
    def examples(self) -> Sequence[Document]:
        """A few of them."""


class Deletion(Protocol):
    """What deletes."""

    async def by_ids(self, ids: Sequence[str], collection: str | None = None) -> Deleted:
        """The documents of these ids."""

    async def matching(self, where: Mapping[str, Any], collection: str) -> Matching:
        """What a filter matches."""

    async def by_filter(self, where: Mapping[str, Any], collection: str, count: int) -> int:
        """That, if it is exactly so many points."""


class Services(Protocol):
    """What the tool calls."""

    @property
    def deletion(self) -> Deletion:
        """Delete."""


class Consent(BaseModel):
    """What a person is asked."""

    delete: bool = Field(description="Delete them for good")


class Deleting:
    """One call: what the filter matches, the question about it, and the deed."""

    def __init__(self, services: Callable[[], Awaitable[Services]], default: str | None) -> None:
        self._services = services
        self._default = default

    async def matched(
        self, ids: Ids, query_filter: Filter, collection_name: Name
    ) -> Matching | QdrantMcpError | None:
        """What the filter matches now; an error is raised by the tool, not on the way to it."""
        if query_filter is None or ids is not None:
            return None
        try:
            place = _place(collection_name, self._default)
            return await (await self._services()).deletion.matching(query_filter, place)
        except QdrantMcpError as error:
            return error

    async def by_ids(self, ids: Sequence[str], collection: str | None) -> CallToolResult:
        """Delete the documents of these ids."""
        return _gone(await (await self._services()).deletion.by_ids(ids, collection))

    async def by_filter(
        self, where: Mapping[str, Any], found: Any, said: Any, confirm_count: int | None
    ) -> CallToolResult:
        """Delete what the filter matches, if that was confirmed."""
        if isinstance(found, QdrantMcpError):
            raise found
        if (count := confirmed(said, found, confirm_count)) is None:
            return _matching(found, asked=_asked(said))
        deletion = (await self._services()).deletion
        done = await deletion.by_filter(where, found.collection, count)
        return answer(f"Deleted {_points(done)} of {found.collection}.", {"deleted": done})


def delete_tool(services: Callable[[], Awaitable[Services]], default: str | None) -> AsyncTool:
    """The tool by ids or by filter."""
    deleting = Deleting(services, default)

    async def consent(
        found: Annotated[Any, Resolve(deleting.matched)], confirm_count: Count, ctx: Context[Any]
    ) -> Elicit[Consent] | None:
        return to_ask(found, confirm_count, ctx)

    async def delete(
        found: Annotated[Any, Resolve(deleting.matched)],
        said: Annotated[ElicitationResult[Consent], Resolve(consent)],
        ids: Ids = None,
        query_filter: Filter = None,
        collection_name: Name = None,
        confirm_count: Count = None,
    ) -> CallToolResult:
        """Delete."""
        if ids is not None and query_filter is None:
            return await deleting.by_ids(ids, collection_name)
        if ids is None and query_filter is not None:
            return await deleting.by_filter(query_filter, found, said, confirm_count)
        raise RequestError("Give ids, or query_filter with collection_name; one of the two.")

    return delete


def delete_ids_tool(services: Callable[[], Awaitable[Services]]) -> AsyncTool:
    """The tool by ids only."""
    deleting = Deleting(services, None)

    async def delete(ids: Ids, collection_name: Name = None) -> CallToolResult:
        """Delete."""
        return await deleting.by_ids(ids or [], collection_name)

    return delete


def to_ask(found: Any, confirm_count: int | None, ctx: Context[Any]) -> Elicit[Consent] | None:
    """The question, where there is something to ask and somebody who can be asked."""
    if found is None or isinstance(found, QdrantMcpError) or not found.count:
        return None
    if confirm_count not in (None, found.count) or not can_ask(ctx):
        return None
    return Elicit(question(found), Consent)


def _asked(said: Any) -> bool:
    """Whether a person was asked; the outcome is None inside where nobody was."""
    return not isinstance(said, AcceptedElicitation) or said.data is not None


def confirmed(said: Any, found: Matching, confirm_count: int | None) -> int | None:
    """How many points may be deleted: None where nobody said so."""
    if not found.count:
        return None
    if not _asked(said):
        return confirm_count
    agreed = isinstance(said, AcceptedElicitation) and said.data.delete
    return found.count if agreed else None


def can_ask(ctx: Context[Any]) -> bool:
    """Whether the client puts questions to a person, and can be reached with one."""
    capabilities = ctx.client_capabilities
    asks = capabilities.elicitation if capabilities is not None else None
    if asks is None or (asks.form is None and asks.url is not None):
        return False
    modern = (ctx.protocol_version or "") >= "2026"
    return modern or ctx.session.can_send_request


def question(found: Matching) -> str:
    """What the person reads."""
    examples = "; ".join(tool_text.line(_name(one), LINE) for one in found.examples)
    return f"Delete {_points(found.count)} of the collection {found.collection}? {examples}"


def _place(collection: str | None, default: str | None) -> str:
    if collection or default:
        return collection or default or ""
    raise RequestError("collection_name is required: a filter deletes from one collection.")


def _gone(done: Deleted) -> CallToolResult:
    if not done.documents:
        missing = ", ".join(repr(tool_text.line(one)) for one in done.missing)
        raise RequestError(f"Nothing was deleted: not found: {missing}.")
    lines = [f"Deleted: {_described(one)}" for one in done.documents]
    if done.missing:
        lines.append(f"Not found: {', '.join(repr(tool_text.line(one)) for one in done.missing)}.")
    documents = [
        {"collection": one.collection, "id": one.document or str(one.id), "points": one.chunks}
        for one in done.documents
    ]
    return answer("\n".join(lines), {"documents": documents, "missing": list(done.missing)})


def _matching(found: Matching, *, asked: bool) -> CallToolResult:
    """Nothing is deleted: the person did not want it, or the number is asked for."""
    structured = {
        "deleted": 0,
        "count": found.count,
        "examples": [{"id": str(one.id), "text": _name(one)} for one in found.examples],
    }
    if not found.count:
        return answer(f"No point of {found.collection} matches: nothing to delete.", structured)
    if asked:
        return answer("Nothing was deleted: the person declined.", structured)
    lines = [
        f"{_points(found.count)} of {found.collection} would be deleted; nothing is yet. Such as:",
        *(f"- {tool_text.line(_name(one), LINE)} (id {one.id})" for one in found.examples),
        f"Call again with confirm_count={found.count} to delete them for good.",
    ]
    return answer("\n".join(lines), structured)


def _described(one: Document) -> str:
    parts = f", {one.chunks} parts" if one.chunks > 1 else ""
    return f"{one.collection} · {tool_text.line(_name(one), LINE)} (id {one.id}{parts})"


def _name(one: Document) -> str:
    return tool_text.line(one.title or one.text)


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"
