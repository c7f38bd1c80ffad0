"""Marks texts as superseded by another one, and removes such marks."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from mcp_server_qdrant.core.datatypes import SUPERSEDED_IN, SUPERSEDED_KEY, Document
from mcp_server_qdrant.core.errors import BackendError, RequestError
from mcp_server_qdrant.core.notation import cite, document_id, key_of
from mcp_server_qdrant.qdrant.filters import parse
from mcp_server_qdrant.qdrant.write.points import Points

LONGEST = 20  # texts of a chain that are followed

Lock = Callable[[str, str], asyncio.Lock]


async def retire(points: Points, lock: Lock, new: Document, olds: Sequence[Document]) -> None:
    """Mark `olds` as superseded by the stored text `new`.

    If `new` was superseded by one of them, its mark is removed. Raises RequestError if `new` is
    among `olds`, BackendError.
    """
    if new.document is None:
        raise RequestError(
            f"Another tool stored {cite(new.id)}: store its text anew, with supersedes."
        )
    if any(key_of(old) == key_of(new) for old in olds):
        raise RequestError("supersedes is the id of the text itself: nothing was marked.")
    try:
        if {*map(key_of, olds)} & {*map(key_of, await _list_heirs(points, new))}:
            await _mark(points, lock, new, None)
        for old in olds:
            await _mark(points, lock, old, new)
    except BackendError as error:
        raise BackendError(
            f"The text is stored (id {cite(document_id(new))}), but not everything that it "
            f"supersedes is marked: {error} Call again to mark the rest."
        ) from error


async def lift(
    points: Points, lock: Lock, new: Document, collections: Iterable[str]
) -> list[Document]:
    """Remove the marks from texts that `new` supersedes, and return those texts."""
    lifted: list[Document] = []
    for name in collections:
        where = {"must": [{"key": SUPERSEDED_KEY, "match": {"value": new.document}}]}
        for one in await points.matching(name, parse(where), whole=True):
            if one.chunk == 0 and (one.superseded_in or name) == new.collection:
                await _mark(points, lock, one, None)
                lifted.append(one)
    return sorted(lifted, key=lambda one: (one.collection != new.collection, document_id(one)))


async def _mark(points: Points, lock: Lock, old: Document, new: Document | None) -> None:
    async with lock(old.collection, old.document or str(old.id)):
        if new is None:
            ids = points.part_ids(old)
            await points.unmark(old.collection, (SUPERSEDED_KEY, SUPERSEDED_IN), ids)
        else:
            await points.retire(old, new.document or "", new.collection)


async def _list_heirs(points: Points, one: Document) -> list[Document]:
    """The chain of texts that superseded this one, nearest first."""
    found: list[Document] = []
    while len(found) < LONGEST and (heir := await points.find_heir(one)):
        found.append(heir)
        one = heir
    return found
