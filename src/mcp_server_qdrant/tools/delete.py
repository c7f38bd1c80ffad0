"""qdrant-delete: deletes documents by id, or points by filter after a confirmation."""

from collections.abc import Sequence
from typing import Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import CallToolResult
from pydantic import BaseModel, BeforeValidator, Field

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.fields import Id, JsonObject, Word, one_or_many
from mcp_server_qdrant.core.notation import cite, document_id, first_few, one_line, plural, shown_id
from mcp_server_qdrant.core.writes import Kept, Matching, Named
from mcp_server_qdrant.tools.boundary import ClosedTool, answer, services_of_tool
from mcp_server_qdrant.tools.rendering import kept_versions, noted

MAX_IDS = 50
LINE = 80
DELETE = "Delete whole documents by ids, of theirs or of parts; or what a filter matches."
DELETE_BY_IDS = "Delete whole documents by ids, of theirs or of parts."
DECLINED = "Nothing was deleted: the person declined."

Ids = Annotated[
    Annotated[list[Id], Field(min_length=1, max_length=MAX_IDS)] | None,
    BeforeValidator(one_or_many),
    Field(description="Found or own ids"),
]
Filter = Annotated[JsonObject, Field(description="First answers with the count; {}: all")]
Name = Annotated[Word | None, Field(description="Where they are")]
Seen = Annotated[Word | None, Field(description="Revision of the text; another one stays")]
Count = Annotated[int | None, Field(ge=1, description="That count, to delete")]


class Consent(BaseModel):
    """A person's answer to the confirmation."""

    delete: bool = Field(description="Delete them")


async def _found(
    ids: Ids, query_filter: Filter, collection_name: Name, seen: Seen
) -> Named | Matching:
    """The documents with these ids, or the points that currently match the filter."""
    if (ids is None) == (query_filter is None):
        raise RequestError("Give ids, or query_filter with collection_name; one of the two.")
    services = await services_of_tool()
    if ids is not None:
        return await services.deletion.named(ids, collection_name, seen)
    place = collection_name or await services.catalog.place()
    if place is None:
        raise RequestError("collection_name is required: a filter deletes from one collection.")
    found = await services.deletion.matching(query_filter or {}, place)
    if not found.count:
        targets = await services.catalog.resolve([place])
        await services.facets.check_keys(query_filter or {}, targets)
    return found


Found = Annotated[Named | Matching, Resolve(_found)]


async def _consent(found: Found, confirm_count: Count, ctx: Context[Any]) -> Elicit[Consent] | None:
    """The confirmation for a person, if the client supports it."""
    if isinstance(found, Named):
        question = about_documents(found)
    else:
        question = about_points(found, confirm_count)
    return Elicit(question, Consent) if question and can_ask(ctx) else None


async def delete(  # the resolvers read the other arguments
    found: Found,
    said: Annotated[ElicitationResult[Consent], Resolve(_consent)],
    ids: Ids = None,  # noqa: ARG001
    query_filter: Filter = None,
    collection_name: Name = None,  # noqa: ARG001
    confirm_count: Count = None,
    seen: Seen = None,  # noqa: ARG001
) -> CallToolResult:
    """Delete what was found, unless the person declined."""
    asked = not isinstance(said, AcceptedElicitation) or said.data is not None
    agreed = isinstance(said, AcceptedElicitation) and said.data is not None and said.data.delete
    if asked and not agreed:
        return answer(DECLINED, _structured(found))
    deletion = (await services_of_tool()).deletion
    if isinstance(found, Named):
        return _gone(found, await deletion.by_ids(found))
    count = found.count if asked else confirm_count
    if not found.count or found.going == 0 or count is None:
        return _matching(found)
    done = await deletion.by_filter(query_filter or {}, found.collection, count)
    lines = [
        f"Deleted {plural(done.points, 'point')} of {cite(found.collection)}.",
        *noted([*kept_versions(done.kept), *_staying(done.partly, done.changed)]),
    ]
    versions = [one.id for one in done.kept if one.id][:MAX_IDS]
    return answer(
        "\n".join(lines), {"deleted": done.points} | ({"versions": versions} if versions else {})
    )


def make_delete(*, by_filter: bool) -> ClosedTool:
    """The tool to register; without filters if those are not allowed."""
    description = DELETE if by_filter else DELETE_BY_IDS
    tool = ClosedTool.make(
        delete, "qdrant-delete", description, write=True, destroys=True, unlisted={"seen"}
    )
    if not by_filter:
        del tool.parameters["properties"]["query_filter"]
        del tool.parameters["properties"]["confirm_count"]
        tool.parameters["required"] = ["ids"]
    return tool


def can_ask(ctx: Context[Any]) -> bool:
    """True if the client supports elicitation and the server can send it a request."""
    capabilities = ctx.client_capabilities
    asks = capabilities.elicitation if capabilities is not None else None
    if asks is None or (asks.form is None and asks.url is not None):
        return False
    modern = (ctx.protocol_version or "") >= "2026"
    return modern or ctx.session.can_send_request


def about_documents(found: Named) -> str | None:
    """The confirmation for documents; None if there are none."""
    if not found.documents:
        return None
    count = len(found.documents)
    question = f"Delete {plural(count, 'document')}?"
    return "\n".join([question, *(f"- {_described(one)}" for one in found.documents)])


def about_points(found: Matching, confirm_count: int | None) -> str | None:
    """The question about the points of a filter; None if there are none, or not `confirm_count`."""
    if not found.count or found.going == 0 or confirm_count not in (None, found.count):
        return None
    place = cite(found.collection)
    sure = "" if found.days else " for good"
    question = f"Delete {plural(found.count, 'point')} of the collection {place}{sure}? Such as:"
    examples = [f"- {_name(one)}" for one in found.examples]
    return "\n".join([question, *examples, *_staying(found.partly)])


def _staying(partly: Sequence[Document] | None, changed: int = 0) -> list[str]:
    """Sentences on what a filter matches and is not deleted, and how to delete it."""
    if partly is None:
        return ["Texts of which only some parts match stay whole."]
    said = [f"Not deleted: {plural(changed, 'point')} changed meanwhile."] if changed else []
    if partly:
        ids = first_few([cite(document_id(one)) for one in partly])
        said.append(
            f"Not deleted: {plural(len(partly), 'text')} of which only some parts match. Give ids "
            f"to delete whole texts: {ids}."
        )
    return said


def _gone(done: Named, kept: Sequence[Kept]) -> CallToolResult:
    if not done.documents:
        raise RequestError(
            f"Nothing was deleted: not found: {_missing(done)}. Use ids that qdrant-find returned."
        )
    lines = [f"Deleted: {_described(one)}" for one in done.documents]
    lines += noted(kept_versions(kept))
    if done.missing:
        lines.append(f"Not found: {_missing(done)}.")
    documents = [
        {"collection": one.collection, "id": document_id(one), "points": one.chunks}
        | ({"version": held.id} if held.id else {})
        for one, held in zip(done.documents, kept, strict=True)
    ]
    return answer("\n".join(lines), {"documents": documents, "missing": list(done.missing)})


def _missing(done: Named) -> str:
    return ", ".join(repr(one_line(one)) for one in done.missing)


def _matching(found: Matching) -> CallToolResult:
    """The result if nothing was deleted: nothing matches, or the count must be confirmed."""
    place = cite(found.collection)
    if not found.count:
        return answer(f"No point of {place} matches: nothing to delete.", _structured(found))
    if found.going == 0:
        staying = _staying(found.partly) or ["They are left of texts that were replaced."]
        return answer("\n".join(["Nothing would be deleted.", *noted(staying)]), _structured(found))
    sure = f"delete; they are kept {found.days} days" if found.days else "delete for good"
    lines = [
        f"{plural(found.count, 'point')} of {place} would be deleted; nothing is yet. Such as:",
        *(f"- id {cite(shown_id(one))} · {_name(one)}" for one in found.examples),
        f"Call again with confirm_count={found.count} to {sure}.",
        *noted(_staying(found.partly)),
    ]
    return answer("\n".join(lines), _structured(found))


def _structured(found: Named | Matching) -> dict[str, Any]:
    """The structured content if nothing was deleted."""
    if isinstance(found, Named):
        return {"documents": [], "missing": [*found.missing]}
    examples = [{"id": shown_id(one), "text": _name(one)} for one in found.examples]
    return {"deleted": 0, "count": found.count, "examples": examples}


def _described(one: Document) -> str:
    parts = f", {one.chunks} parts" if one.chunks > 1 else ""
    return f"{cite(one.collection)} (id {cite(document_id(one))}{parts}) · {_name(one)}"


def _name(one: Document) -> str:
    """The title and the beginning of the text, since all parts of a document share the title."""
    described = f"{one.title}: {one.text}" if one.title else one.text
    return one_line(described, LINE)
