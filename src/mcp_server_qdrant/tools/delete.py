"""qdrant-delete: deletes documents by id, or points by filter after a confirmation."""

from collections.abc import Sequence
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.fields import Id, JsonObject, Word, one_or_many
from mcp_server_qdrant.core.notation import cite, document_id, first_few, one_line, plural, shown_id
from mcp_server_qdrant.core.writes import KeptVersion, Matching, Named
from mcp_server_qdrant.tools.boundary import ClosedTool, make_result, services_of_tool
from mcp_server_qdrant.tools.rendering import as_notes, kept_versions
from mcp_server_qdrant.tools.services import Services

MAX_IDS = 50
LINE = 80
DELETE = "Delete whole documents by their ids or those of parts; or what a filter matches."
DELETE_BY_IDS = "Delete whole documents by their ids or those of parts."

Ids = Annotated[
    Annotated[list[Id], Field(min_length=1, max_length=MAX_IDS)] | None,
    BeforeValidator(one_or_many),
    Field(description="Found or own ids"),
]
Filter = Annotated[JsonObject, Field(description="The first call only counts; {}: all")]
Name = Annotated[Word | None, Field(description="Required with query_filter")]
Seen = Annotated[Word | None, Field(description="Revision of the text; any other is kept")]
Count = Annotated[int | None, Field(ge=1, description="The count, to confirm")]


async def delete(
    ids: Ids = None,
    query_filter: Filter = None,
    collection_name: Name = None,
    confirm_count: Count = None,
    seen: Seen = None,
) -> CallToolResult:
    """Delete the documents with these ids, or the points that match the filter."""
    if (ids is None) == (query_filter is None):
        raise RequestError("Give either ids, or query_filter with collection_name.")
    services = await services_of_tool()
    if ids is None:
        return await _by_filter(services, query_filter or {}, collection_name, confirm_count)
    found = await services.deletion.named(ids, collection_name, seen)
    return _deleted_result(found, await services.deletion.by_ids(found))


async def _by_filter(
    services: Services, where: dict[str, Any], named: str | None, confirmed: int | None
) -> CallToolResult:
    """Count the matching points; delete them if that count was confirmed."""
    place = named or await services.catalog.storing_collection()
    if place is None:
        raise RequestError("collection_name is required: a filter deletes from one collection.")
    found = await services.deletion.matching(where, place)
    if not found.count:
        await services.facets.check_keys(where, await services.catalog.resolve([place]))
    if not found.count or found.going == 0 or confirmed is None:
        return _count_result(found)
    done = await services.deletion.by_filter(where, found.collection, confirmed)
    lines = [
        f"Deleted {plural(done.points, 'point')} of {cite(found.collection)}.",
        *as_notes([*kept_versions(done.kept), *_explain_kept(done.partly, done.changed)]),
    ]
    versions = [one.id for one in done.kept if one.id][:MAX_IDS]
    return make_result(
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


def _explain_kept(partly: Sequence[Document] | None, changed: int = 0) -> list[str]:
    """Sentences on what a filter matches and is not deleted, and how to delete it."""
    if partly is None:
        return ["Texts with only some matching parts are kept whole."]
    said = [f"Not deleted: {plural(changed, 'point')} that changed meanwhile."] if changed else []
    if partly:
        ids = first_few([cite(document_id(one)) for one in partly])
        said.append(
            f"Not deleted: {plural(len(partly), 'text')} with only some matching parts. To "
            f"delete them whole, give their ids: {ids}."
        )
    return said


def _deleted_result(done: Named, kept: Sequence[KeptVersion]) -> CallToolResult:
    if not done.documents:
        missing = _missing_ids(done)
        raise RequestError(
            f"Nothing was deleted: not found: {missing}. Use ids that qdrant-find returned."
        )
    lines = [f"Deleted: {_document_line(one)}" for one in done.documents]
    lines += as_notes(kept_versions(kept))
    if done.missing:
        lines.append(f"Not found: {_missing_ids(done)}.")
    documents = [
        {"collection": one.collection, "id": document_id(one), "points": one.chunks}
        | ({"version": held.id} if held.id else {})
        for one, held in zip(done.documents, kept, strict=True)
    ]
    return make_result("\n".join(lines), {"documents": documents, "missing": list(done.missing)})


def _missing_ids(done: Named) -> str:
    return ", ".join(repr(one_line(one)) for one in done.missing)


def _count_result(found: Matching) -> CallToolResult:
    """The result if nothing was deleted: nothing matches, or the count must be confirmed."""
    place = cite(found.collection)
    points = plural(found.count, "point")
    sure = f"delete them, kept for {found.days} days" if found.days else "delete them for good"
    if not found.count:
        lines = [f"No point of {place} matches: nothing to delete."]
    elif found.going == 0:
        staying = _explain_kept(found.partly) or ["They are orphans of replaced texts."]
        lines = ["Nothing would be deleted.", *as_notes(staying)]
    else:
        lines = [
            f"Nothing is deleted yet. The filter matches {points} of {place}, such as:",
            *(f"- id {cite(shown_id(one))} · {_summarize(one)}" for one in found.examples),
            f"Call again with confirm_count={found.count} to {sure}.",
            *as_notes(_explain_kept(found.partly)),
        ]
    examples = [{"id": shown_id(one), "text": _summarize(one)} for one in found.examples]
    values = {"deleted": 0, "count": found.count, "examples": examples}
    return make_result("\n".join(lines), values)


def _document_line(one: Document) -> str:
    parts = f", {one.chunks} parts" if one.chunks > 1 else ""
    return f"{cite(one.collection)} (id {cite(document_id(one))}{parts}) · {_summarize(one)}"


def _summarize(one: Document) -> str:
    """The title and the beginning of the text, since all parts of a document share the title."""
    described = f"{one.title}: {one.text}" if one.title else one.text
    return one_line(described, LINE)
