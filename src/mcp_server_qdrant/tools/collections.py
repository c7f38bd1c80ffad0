"""qdrant-collections: the collections that can be searched."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from mcp_server_qdrant.core.datatypes import CollectionInfo
from mcp_server_qdrant.core.fields import Word, without_null
from mcp_server_qdrant.core.notation import cite, first_few, one_line, plural
from mcp_server_qdrant.core.sentences import tokens
from mcp_server_qdrant.tools.boundary import ClosedTool, make_result, services_of_tool
from mcp_server_qdrant.tools.rendering import as_notes

COLLECTIONS = "List the collections that can be searched."
MAX_LISTED = 80  # collections described for a list at most
LIST_ROOM = 740  # tokens of a list of collections
MAX_LETTERS = 100  # failed files shown of a collection
SYNC_LINE = 400  # characters of a sync's state
ABOUT = 100  # characters of a collection's description

Pattern = Annotated[Word | None, Field(description="Glob, or part of the name")]
After = Annotated[Word | None, Field(description="The last name of the page before")]


async def collections(pattern: Pattern = None, after: After = None) -> CallToolResult:
    """List the searchable collections, by the page."""
    services = await services_of_tool()
    background, catalog = services.background, services.catalog
    syncs, dead = background.status(), background.dead_letters()
    names = await catalog.names_matching(pattern)
    first = bisect_right(names, after) if after else 0
    infos = await services.describe_collections(names[first : first + MAX_LISTED])
    lines = _fit_lines(infos, syncs)
    infos = infos[: len(lines)]
    coming = {} if pattern or after else {n: s for n, s in syncs.items() if n not in names}
    notes = [f"{fault}." for fault in services.faults()]
    if infos and names[-1] != infos[-1].name:
        shown, last = f"{len(infos)} of {len(names):,} collections", cite(infos[-1].name)
        notes.append(f"{shown}: continue with after={last}, or give a pattern.")
    if pattern and not names:
        notes.append(f"No collection matches {cite(pattern)}: leave pattern out for all.")
    elif names and not infos:
        notes.append(f"No name comes after {cite(after or '')}.")
    shown_infos = [as_data(info, syncs.get(info.name), dead.get(info.name)) for info in infos]
    structured: dict[str, Any] = {"collections": shown_infos}
    if notes:
        structured["notes"] = notes
    return make_result(as_text(lines, coming, notes), structured)


def make_collections() -> ClosedTool:
    """The tool to register."""
    return ClosedTool.make(collections, "qdrant-collections", COLLECTIONS, write=False)


def _fit_lines(infos: Sequence[CollectionInfo], syncs: Mapping[str, str]) -> list[str]:
    """One line per collection: in full if all fit, otherwise in brief as many as fit."""
    full = [collection_line(info, syncs.get(info.name)) for info in infos]
    if sum(tokens(one) + 1 for one in full) <= LIST_ROOM:
        return full
    lines, room = list[str](), LIST_ROOM
    for info in infos:
        lines.append(collection_line(info, brief=True))
        room -= tokens(lines[-1]) + 1
        if room < 0:
            break
    return lines[:-1] if room < 0 and len(lines) > 1 else lines


def as_text(lines: Sequence[str], syncs: Mapping[str, str], notes: Sequence[str] = ()) -> str:
    """The lines of the collections, of those that do not exist yet, and the notes."""
    coming = [f"- {cite(name)}: {one_line(sync, SYNC_LINE)}" for name, sync in syncs.items()]
    return "\n".join([*lines, *coming, *as_notes(notes)] or ["There is no collection yet."])


def collection_line(info: CollectionInfo, sync: str | None = None, *, brief: bool = False) -> str:
    """The line of a collection; `brief`: only its size, description and problems."""
    legs = " + ".join(info.legs) or "not searchable"
    model = f", {one_line(info.model)}" if info.model else ""
    wrote = f", by {first_few(info.writers, shown=cite)}" if info.writers else ""
    fresh = f", updated {one_line(info.updated_at)}" if info.updated_at else ""
    note = f" ({one_line(info.note, None)})" if info.note else ""
    kept = f"; {one_line(sync, SYNC_LINE)}" if sync else ""
    points = plural(info.points, "point")
    about = f"; about: {one_line(info.description, ABOUT)}" if info.description else ""
    about += f"; new texts expire: {one_line(info.expires, ABOUT)}" if info.expires else ""
    if brief:
        return f"- {cite(info.name)}: {points}{about}{note}"
    return f"- {cite(info.name)}: {points}, {legs}{model}{fresh}{wrote}{note}{kept}{about}"


def as_data(
    info: CollectionInfo, sync: str | None = None, dead: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A collection as structured content, with the state of its folders.

    `dead` maps files that could not be read to the reason; at most 100 are shown.
    """
    values = {
        "name": info.name,
        "description": info.description,
        "points": info.points,
        "legs": list(info.legs),
        "model": info.model,
        "updated_at": info.updated_at,
        "stored_by": list(info.writers) or None,
        "note": info.note,
        "sync": sync,
        "dead_letters": dict(islice(dead.items(), MAX_LETTERS)) if dead else None,
    }
    return without_null(values)
