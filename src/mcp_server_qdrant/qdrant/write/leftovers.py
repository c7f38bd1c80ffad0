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
        drafts, old, marked = await self._look(collection)
        seen = await self._points.by_id(collection, [part.id for part in met])
        now = await self._points.current(seen)
        stale = [part for part, there in zip(seen, now, strict=True) if there is not part]
        due = self.due([*drafts, *old, *stale])
        late = [part for part in due if part.writing is not None]
        replaced = [part for part in due if part.writing is None]
        await self._points.delete_points(collection, _ids(late), writing=True)
        await self._points.delete_points(collection, _ids(replaced), writing=False)
        await self._points.settle(collection, _ids(marked))
        return len(_ids(due))

    def due(self, leftovers: Iterable[Document]) -> list[Document]:
        """The leftovers that nobody is still writing."""
        before = self._clock() - PATIENCE
        return [part for part in leftovers if part.writing is None or part.writing < before]

    async def _look(self, collection: str) -> tuple[list[Document], list[Document], list[Document]]:
        """Drafts that were never finished, parts of older versions, and parts of whole texts whose
        writer did not remove its mark.
        """
        marked = await self._points.writing(collection)
        if not marked:
            return [], [], []
        now = await self._points.current(marked)
        heads = [part for part in marked if part.head is None]
        replaced = [
            part
            for head in heads
            for part in await self._points.further(head)
            if part.writing is None and not part.current(head)
        ]
        kept = [part for part, there in zip(marked, now, strict=True) if there is part]
        drafts = [part for part, there in zip(marked, now, strict=True) if there is not part]
        return drafts, replaced, kept


def _ids(found: Iterable[Document]) -> list[PointId]:
    return list(dict.fromkeys(part.id for part in found))
