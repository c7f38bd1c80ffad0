"""Leftovers of interrupted writes: parts of texts that no reader is shown.

A part is shown if it is of the version that the first part of its text has. So nothing here is
urgent; it is removed because it takes room, and counts as points until then.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from mcp_server_qdrant.core.datatypes import Document, PointId
from mcp_server_qdrant.qdrant.write.points import Points

PATIENCE = 6 * 3600  # seconds that one write of a text may take; a large file of a folder does


class Leftovers:
    """Removes them."""

    def __init__(self, points: Points, clock: Callable[[], float] = time.time) -> None:
        self._points = points
        self._clock = clock

    async def sweep(self, collection: str, met: Sequence[Document] = ()) -> int:
        """Finish interrupted writes and return the number of points removed.

        `met` may be leftovers too. A write that may still be under way is left alone.
        """
        marked = await self._points.writing(collection)
        further = [
            part
            for head in marked
            if head.head is None
            for part in await self._points.further(head)
            if part.writing is None
        ]
        known = await self._points.by_id(collection, [part.id for part in met])
        found = [*marked, *further, *known]
        now = await self._points.current(found)
        whole = [part for part, there in zip(marked, now, strict=False) if there is part]
        due = self.due(part for part, there in zip(found, now, strict=True) if there is not part)
        drafts = [part for part in due if part.writing is not None]
        replaced = [part for part in due if part.writing is None]
        await self._points.delete_points(collection, _ids(drafts), writing=True)
        await self._points.delete_points(collection, _ids(replaced), writing=False)
        await self._points.settle(collection, _ids(whole))
        return len(_ids(due))

    def due(self, leftovers: Iterable[Document]) -> list[Document]:
        """The leftovers that nobody is still writing."""
        before = self._clock() - PATIENCE
        return [part for part in leftovers if part.writing is None or part.writing < before]


def _ids(found: Iterable[Document]) -> list[PointId]:
    return list(dict.fromkeys(part.id for part in found))
