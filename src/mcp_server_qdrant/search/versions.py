"""Hits -> those of the version that their text has now."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from mcp_server_qdrant.core.datatypes import Document, Hit, Payload, PointId, Status

Place = tuple[str, PointId]  # collection, id
Ask = Callable[
    [Mapping[str, set[PointId]]], Awaitable[tuple[dict[Place, Payload], list[Status]]]
]  # points by collection -> their payloads, and which collections failed


async def current(
    hits: Sequence[Hit], read: Callable[[Hit], Document], ask: Ask
) -> tuple[list[Hit], list[Document], list[Status]]:
    """The hits without parts of texts that were replaced, or are not wholly written yet.

    Those parts, and which collections failed, whose further parts are left out then. The first part
    of a text tells its version; an engine may have compared them already.
    """
    replaced, untold = [], []
    left_out: set[Place] = set()
    for hit in hits:
        told = _told(hit)
        if told is False:
            replaced.append(read(hit))
            left_out.add((hit.collection, hit.id))
        elif told is None and (one := read(hit)).head is not None:
            untold.append((hit, one, one.head))
    wanted: dict[str, set[PointId]] = {}
    for hit, _, head in untold:
        wanted.setdefault(hit.collection, set()).add(head)
    firsts, late = await ask(wanted) if wanted else ({}, [])
    failed = {status.collection for status in late}
    for hit, one, head in untold:
        first = firsts.get((hit.collection, head))
        if first is None and hit.collection in failed:
            left_out.add((hit.collection, hit.id))
        elif not one.current(read(hit._replace(id=head, payload=first)) if first else None):
            replaced.append(one)
            left_out.add((hit.collection, hit.id))
    return [hit for hit in hits if (hit.collection, hit.id) not in left_out], replaced, late


def _told(hit: Hit) -> bool | None:
    """Whether the hit is current; None where the engine did not tell and it may not be."""
    doc = (hit.payload or {}).get("doc")
    if not isinstance(doc, dict) or not doc.get("chunk"):
        return True
    told = doc.get("current")
    return told if isinstance(told, bool) else None
