"""qdrant-delete: documents by ids; by filter only what a person or an exact number confirmed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import CallToolResult
from pydantic import BaseModel, BeforeValidator, Field

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError
from mcp_server_qdrant.core.fields import Id, JsonObject, Word, one_or_many
from mcp_server_qdrant.core.notation import called, document_id, line, shown_id
from mcp_server_qdrant.core.writes import Kept
from mcp_server_qdrant.tools import text as tool_text
from mcp_server_qdrant.tools.boundary import AsyncTool, answer
from mcp_server_qdrant.tools.services import Open

if TYPE_CHECKING:
    from mcp_server_qdrant.ingest.delete import Matching, Named

MAX_IDS = 50
LINE = 80
DELETE = "Delete whole documents by ids, of theirs or of parts; or what a filter matches."
DELETE_BY_IDS = "Delete whole documents by ids, of theirs or of parts."
DECLINED = "Nothing was deleted: the person declined."

Ids = Annotated[
    Annotated[list[Id], Field(min_length=1, max_length=MAX_IDS)] | None,
    BeforeValidator(one_or_many),
    Field(description="Found ids, or your own"),
]
Filter = Annotated[JsonObject, Field(description="First answers with the count; {}: all")]
Name = Annotated[Word | None, Field(description="Where they are")]
Seen = Annotated[Word | None, Field(description="Revision of the text; another one stays")]
Count = Annotated[int | None, Field(ge=1, description="That count, to delete")]


class Consent(BaseModel):
    """The answer of a person who is asked."""

    delete: bool = Field(description="Delete them")


class Deleting:
    """One call: what it would delete, the question about that, and the deed."""

    def __init__(self, services: Open, default: str | None) -> None:
        self._services = services
        self._default = default

    async def named(self, ids: Ids, collection_name: Name, seen: Seen) -> Any:
        """The documents of the ids; an error is raised by the tool, not on the way to it."""
        if ids is None:
            return None
        try:
            return await (await self._services()).deletion.named(ids, collection_name, seen)
        except QdrantMcpError as error:
            return error

    async def matched(self, query_filter: Filter, collection_name: Name) -> Any:
        """The points that the filter matches now; an error as above."""
        if query_filter is None:
            return None
        try:
            return await self._matching(query_filter, _place(collection_name, self._default))
        except QdrantMcpError as error:
            return error

    async def _matching(self, where: Mapping[str, Any], place: str) -> "Matching":
        services = await self._services()
        found = await services.deletion.matching(where, place)
        if not found.count:
            targets = await services.catalog.resolve([place])
            await services.pipeline.check_keys(where, targets)
        return found

    async def by_ids(self, found: Any, said: Any) -> CallToolResult:
        """Delete the documents that were found, unless a person who was asked declined."""
        if isinstance(found, QdrantMcpError):
            raise found
        if _declined(said):
            return answer(DECLINED, {"documents": [], "missing": list(found.missing)})
        kept = await (await self._services()).deletion.by_ids(found)
        return _gone(found, kept)

    async def by_filter(
        self, where: Mapping[str, Any], found: Any, said: Any, confirm_count: int | None
    ) -> CallToolResult:
        """Delete what the filter matches, if that was confirmed."""
        if isinstance(found, QdrantMcpError):
            raise found
        if _declined(said):
            return answer(DECLINED, _structured(found))
        count = found.count if _asked(said) else confirm_count
        if not found.count or count is None:
            return _matching(found)
        deletion = (await self._services()).deletion
        done = await deletion.by_filter(where, found.collection, count)
        said = [
            f"Deleted {_points(count)} of {called(found.collection)}.",
            *tool_text.noted(tool_text.kept(done)),
        ]
        ids = [one.id for one in done if one.id][:MAX_IDS]
        versions = {"versions": ids} if ids else {}
        return answer("\n".join(said), {"deleted": count} | versions)


def delete_tool(services: Open, default: str | None) -> AsyncTool:
    """The tool by ids or by filter."""
    deleting = Deleting(services, default)

    async def consent(
        named: Annotated[Any, Resolve(deleting.named)],
        matched: Annotated[Any, Resolve(deleting.matched)],
        confirm_count: Count,
        ctx: Context[Any],
    ) -> Elicit[Consent] | None:
        if named is not None and matched is not None:
            return None  # the tool refuses both at once
        return to_ask(about_documents(named) or about_points(matched, confirm_count), ctx)

    async def delete(  # the resolvers read the other arguments
        named: Annotated[Any, Resolve(deleting.named)],
        matched: Annotated[Any, Resolve(deleting.matched)],
        said: Annotated[ElicitationResult[Consent], Resolve(consent)],
        ids: Ids = None,
        query_filter: Filter = None,
        collection_name: Name = None,  # noqa: ARG001
        confirm_count: Count = None,
        seen: Seen = None,  # noqa: ARG001
    ) -> CallToolResult:
        """Delete."""
        if ids is not None and query_filter is None:
            return await deleting.by_ids(named, said)
        if ids is None and query_filter is not None:
            return await deleting.by_filter(query_filter, matched, said, confirm_count)
        raise RequestError("Give ids, or query_filter with collection_name; one of the two.")

    return delete


def delete_ids_tool(services: Open) -> AsyncTool:
    """The tool by ids only."""
    deleting = Deleting(services, None)

    async def consent(
        named: Annotated[Any, Resolve(deleting.named)], ctx: Context[Any]
    ) -> Elicit[Consent] | None:
        return to_ask(about_documents(named), ctx)

    async def delete(  # the resolvers read the other arguments
        named: Annotated[Any, Resolve(deleting.named)],
        said: Annotated[ElicitationResult[Consent], Resolve(consent)],
        ids: Ids,  # noqa: ARG001
        collection_name: Name = None,  # noqa: ARG001
        seen: Seen = None,  # noqa: ARG001
    ) -> CallToolResult:
        """Delete."""
        return await deleting.by_ids(named, said)

    return delete


def to_ask(question: str | None, ctx: Context[Any]) -> Elicit[Consent] | None:
    """The question, where there is one and somebody who can be asked."""
    return Elicit(question, Consent) if question and can_ask(ctx) else None


def can_ask(ctx: Context[Any]) -> bool:
    """True if the client can ask a person, and can be reached with a question."""
    capabilities = ctx.client_capabilities
    asks = capabilities.elicitation if capabilities is not None else None
    if asks is None or (asks.form is None and asks.url is not None):
        return False
    modern = (ctx.protocol_version or "") >= "2026"
    return modern or ctx.session.can_send_request


def about_documents(found: Any) -> str | None:
    """The question about the documents of some ids; None if there are none."""
    if found is None or isinstance(found, QdrantMcpError) or not found.documents:
        return None
    count = len(found.documents)
    question = f"Delete {'1 document' if count == 1 else f'{count} documents'}?"
    return "\n".join([question, *(f"- {_described(one)}" for one in found.documents)])


def about_points(found: Any, confirm_count: int | None) -> str | None:
    """The question about the points of a filter; None if there are none, or not `confirm_count`."""
    if found is None or isinstance(found, QdrantMcpError) or not found.count:
        return None
    if confirm_count not in (None, found.count):
        return None
    place = called(found.collection)
    sure = "" if found.days else " for good"
    question = f"Delete {_points(found.count)} of the collection {place}{sure}? Such as:"
    return "\n".join([question, *(f"- {_name(one)}" for one in found.examples)])


def _asked(said: Any) -> bool:
    """True if a person was asked; else the outcome holds None."""
    return not isinstance(said, AcceptedElicitation) or said.data is not None


def _declined(said: Any) -> bool:
    """True if a person was asked and did not agree, in any way."""
    agreed = isinstance(said, AcceptedElicitation) and said.data is not None and said.data.delete
    return _asked(said) and not agreed


def _place(collection: str | None, default: str | None) -> str:
    if collection or default:
        return collection or default or ""
    raise RequestError("collection_name is required: a filter deletes from one collection.")


def _gone(done: "Named", kept: Sequence[Kept]) -> CallToolResult:
    if not done.documents:
        raise RequestError(f"Nothing was deleted: not found: {_missing(done)}.")
    lines = [f"Deleted: {_described(one)}" for one in done.documents]
    lines += tool_text.noted(tool_text.kept(kept))
    if done.missing:
        lines.append(f"Not found: {_missing(done)}.")
    documents = [
        {"collection": one.collection, "id": document_id(one), "points": one.chunks}
        | ({"version": held.id} if held.id else {})
        for one, held in zip(done.documents, kept, strict=True)
    ]
    return answer("\n".join(lines), {"documents": documents, "missing": list(done.missing)})


def _missing(done: "Named") -> str:
    return ", ".join(repr(line(one)) for one in done.missing)


def _matching(found: "Matching") -> CallToolResult:
    """Nothing is deleted: there is nothing, or its number is asked for."""
    place = called(found.collection)
    if not found.count:
        return answer(f"No point of {place} matches: nothing to delete.", _structured(found))
    sure = f"delete; they are kept {found.days} days" if found.days else "delete for good"
    lines = [
        f"{_points(found.count)} of {place} would be deleted; nothing is yet. Such as:",
        *(f"- id {called(shown_id(one))} · {_name(one)}" for one in found.examples),
        f"Call again with confirm_count={found.count} to {sure}.",
    ]
    return answer("\n".join(lines), _structured(found))


def _structured(found: "Matching") -> dict[str, Any]:
    examples = [{"id": shown_id(one), "text": _name(one)} for one in found.examples]
    return {"deleted": 0, "count": found.count, "examples": examples}


def _described(one: Document) -> str:
    parts = f", {one.chunks} parts" if one.chunks > 1 else ""
    return f"{called(one.collection)} (id {called(document_id(one))}{parts}) · {_name(one)}"


def _name(one: Document) -> str:
    """Its title and how its text begins: the parts of a document share their title."""
    described = f"{one.title}: {one.text}" if one.title else one.text
    return line(described, LINE)


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"
