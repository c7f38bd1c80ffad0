"""Hits -> those of the version that their text has now."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from mcp_server_qdrant.datatypes import Document, Hit, Payload, PointId, Status

Place = tuple[str, PointId]  # collection, id
Ask = Callable[
    [Mapping[str, set[PointId]]], Awaitable[tuple[dict[Place, Payload], list[Status]]]
]  # points by collection -> their payloads, and which collections failed


async def current(
    hits: Sequence[Hit], read: Callable[[Hit], Document], ask: Ask
) -> tuple[list[Hit], list[Document], list[Status]]:
    """The hits without parts of texts that were replaced, or are not wholly written yet.

    Those parts, and which collections failed, whose further parts are left out then. The first part
    of a text tells its version; an engine may have told it with the hit.
    """
    parts = [(hit, one, one.head) for hit in hits if (one := read(hit)).head is not None]
    if not parts:
        return list(hits), [], []
    firsts: dict[Place, Payload] = {}
    untold: dict[str, set[PointId]] = {}
    for hit, _, head in parts:
        if (told := _told(hit)) is not None:
            firsts[hit.collection, head] = told
        else:
            untold.setdefault(hit.collection, set()).add(head)
    payloads, late = await ask(untold)
    firsts |= payloads
    failed = {status.collection for status in late}
    replaced, left_out = [], set()
    for hit, one, head in parts:
        first = firsts.get((hit.collection, head))
        if first is None and hit.collection in failed:
            left_out.add((hit.collection, hit.id))
        elif not one.current(read(hit._replace(id=head, payload=first)) if first else None):
            replaced.append(one)
            left_out.add((hit.collection, hit.id))
    return [hit for hit in hits if (hit.collection, hit.id) not in left_out], replaced, late


def _told(hit: Hit) -> Payload | None:
    """The payload of the first part, as far as it came with the hit: empty where there is none."""
    doc = (hit.payload or {}).get("doc")
    if not isinstance(doc, dict) or "first" not in doc:
        return None
    return {"doc": doc["first"]} if doc["first"] else {}
