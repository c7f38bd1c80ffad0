"""Earlier versions of texts, in the answers of the tools."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcp.types import CallToolResult

from mcp_server_qdrant.core.errors import BackendError, RequestError
from mcp_server_qdrant.core.notation import called, every
from mcp_server_qdrant.core.versions import Version
from mcp_server_qdrant.tools import rendering
from mcp_server_qdrant.tools.boundary import answer

if TYPE_CHECKING:
    from mcp_server_qdrant.qdrant.history import History


async def listed(history: "History", ids: Sequence[str], collection: str | None) -> CallToolResult:
    """The versions of some texts, a line each. Raises RequestError where there are none."""
    found = [one for wanted in ids for one in await history.versions(wanted, collection)]
    if not found:
        raise RequestError(f"No earlier version of {every(ids)} is kept.")
    lines = [f"- {one.line}" for one in found]
    lines += rendering.noted([f"qdrant-get reads one by its id, {rendering.BACK}."])
    return answer("\n".join(lines), {"versions": [_structured(one) for one in found]})


async def found(
    history: "History", missing: Sequence[str], collection: str | None
) -> tuple[dict[str, Version], list[str]]:
    """The versions that ids of no text mean, and sentences on these and on deleted texts."""
    versions, notes = {}, list[str]()
    try:
        for wanted in missing:
            if one := await history.version(wanted, collection):
                versions[wanted] = one
                notes.append(f"id {called(one.id)} is an earlier version, {one.ended}.")
            else:
                notes += await gone(history, wanted, collection)
    except BackendError as error:
        notes.append(f"not looked for earlier versions: {error}")
    return versions, notes


async def gone(history: "History", wanted: str, collection: str | None) -> list[str]:
    """A sentence on a text that was deleted, and how to have it back."""
    versions = await history.versions(wanted, collection)
    return [
        f"{called(wanted)} was {one.ended}: qdrant-get reads id {called(one.id)}, {rendering.BACK}."
        for one in versions[:1]
    ]


def ended(one: Version) -> dict[str, Any]:
    """What structured content tells of a version beside its text."""
    return {"id": one.id, "until": one.until, "by": dict(one.by), "deleted": one.deleted}


def _structured(one: Version) -> dict[str, Any]:
    about = {"title": one.document.title, "text": one.document.text}
    return ended(one) | {"collection": one.collection} | {k: v for k, v in about.items() if v}
