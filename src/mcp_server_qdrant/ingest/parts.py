"""The parts of one text: their version, and the ids that follow from it.

All parts of a version are written before its first part. That one has the same id in every version,
so writing it replaces the old text by the new one, for every reader, in one step.
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from mcp_server_qdrant.core.datatypes import Document, PointId, Target
from mcp_server_qdrant.core.errors import Outdated, QdrantMcpError
from mcp_server_qdrant.core.notation import Identify, part_id
from mcp_server_qdrant.core.writes import StoredPoint
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.write.points import Points

UPSERT = 64


@dataclass(frozen=True, slots=True)
class Replacement:
    """Puts a text in the place of its earlier version.

    `parts` are written as `points`; `before` is the first part of the version until now. `exact`:
    only if it still is.
    """

    engine: Points
    catalog: Catalog
    target: Target
    parts: Sequence[Document]
    points: Sequence[StoredPoint]
    before: Document | None
    exact: bool = False

    async def write(self) -> None:
        """Write the points. Cut short, nothing has changed for a reader, or all has.

        Raises Outdated where an `exact` write came too late.
        """
        try:
            await self._write_further()
            await self._write_first()
        finally:
            if self.parts[0].writing is not None:
                await asyncio.shield(self._tidy())

    async def _write_first(self) -> None:
        first = self.points[0]
        if not self.exact:
            await self.engine.upsert(self.target, [first])
            return
        if self.before is None:
            await self.engine.insert(self.target, first)
        else:
            await self.engine.exchange(self.target, first, self.before)
        head = self.parts[0]
        now = await self.engine.first(head.collection, head.document or "")
        if now is None or (now.version, now.updated_at) != (head.version, head.updated_at):
            raise Outdated

    async def _write_further(self) -> None:
        for start in range(1, len(self.points), UPSERT):
            await self.engine.upsert(self.target, self.points[start : start + UPSERT])

    async def _tidy(self) -> None:
        """Remove the earlier version, or this one where it is not the present one.

        No reader sees either; what fails here is done by whoever meets it. Another server may
        replace the text meanwhile: only parts that were seen while this version was the present
        one are removed, and none that is being written.
        """
        head, *further = self.parts
        name, ids = head.collection, [part.id for part in further]
        with contextlib.suppress(QdrantMcpError):
            if not await self._present(head):
                await self.engine.delete_points(name, ids)
                return
            old = await self._earlier(head)
            if old and await self._present(head):
                await self.engine.delete_superseded(name, old)
            await self.engine.settle(name, [head.id, *ids])
            if not await self._present(head):
                await self.engine.delete_superseded(name, ids)
            elif await self.engine.count(name, ids) < len(ids):  # taken for leftovers
                await self._write_further()
                await self.engine.settle(name, ids)

    async def _present(self, head: Document) -> bool:
        now = await self.engine.first(head.collection, head.document or "")
        return now is not None and now.version == head.version

    async def _earlier(self, head: Document) -> list[PointId]:
        """The parts that earlier versions left."""
        before = self.before
        ours = self.catalog.has_document_index(head.collection)
        if ours or (before and before.writing is not None):
            known = await self.engine.further(head)
            return [one.id for one in known if one.writing is None and not one.current(head)]
        if before is None or before.version == head.version:
            return []
        return list[PointId](self.engine.part_ids(before, 1, before.chunks - 1))


def numbered(parts: Sequence[Document], identify: Identify) -> list[Document]:
    """The parts of one text with their ids, those of several with their version."""
    one = parts[0]
    first = identify(one.collection, one.document or "", 0)
    if len(parts) == 1:
        return [one._replace(id=first)]
    version = version_of(parts)
    return [
        part._replace(
            id=part_id(first, version, part.chunk) if part.chunk else first,
            version=version,
            head=first if part.chunk else None,
        )
        for part in parts
    ]


def version_of(parts: Sequence[Document]) -> str:
    """A hash of all that a reader sees of the parts, but for when they were written.

    The same text written again is the same version, and has the same points.
    """
    dumped = partial(json.dumps, sort_keys=True, default=str)
    metadata = {id(part.metadata): dumped(part.metadata) for part in parts[:1]}  # all share it
    each = []
    for a in parts:
        kept = metadata.get(id(a.metadata)) or dumped(a.metadata)
        known = [*map(dumped, (a.text, a.start, a.end, a.section, a.title, a.source)), kept]
        # Without sections the version is that of texts stored before there were any.
        each.append(f"[{', '.join([*known, *map(dumped, (a.tags, *a.sections))])}]")
    written = f"[{', '.join(each)}]"
    return blake2b(written.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
