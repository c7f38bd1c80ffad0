"""Points by their ids, by document, or by a filter, as Documents."""

from collections.abc import Iterable, Sequence

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import (
    Document,
    Payload,
    PointId,
    Target,
)
from mcp_server_qdrant.core.notation import (
    Identify,
    first_id,
    point_id,
    sibling_id,
)
from mcp_server_qdrant.qdrant.engine import Engine, Point
from mcp_server_qdrant.qdrant.filters import (
    among,
    equal,
    one_of,
)
from mcp_server_qdrant.qdrant.legs import vector_of
from mcp_server_qdrant.qdrant.paging import pages
from mcp_server_qdrant.qdrant.payload import (
    CHUNK_KEY,
    CHUNKS_KEY,
    DOCUMENT_KEY,
    PENDING_KEY,
    SOURCE_KEY,
    UPDATED_KEY,
    VERSION_KEY,
    WRITING_KEY,
    document_of,
    stored_payload,
)

PENDING = "dense"
PAGE = 500
# What tells which text, of which version, a point is a part of, and when it was written.
_PLACE = (DOCUMENT_KEY, CHUNK_KEY, CHUNKS_KEY, VERSION_KEY, WRITING_KEY, UPDATED_KEY)


class PointReader:
    """Reads that name points. All raise our errors. `identify` tells the id of a chunk."""

    def __init__(
        self, client: Engine, content_fields: Sequence[str], identify: Identify = point_id
    ) -> None:
        self._client = client
        self._content_fields = tuple(content_fields)
        self.identify = identify

    async def by_id(self, collection: str, ids: Sequence[PointId]) -> list[Document]:
        """The named points as Documents; missing ones are left out."""
        if not ids:
            return []
        records = await self._client.retrieve(collection, ids, with_payload=True)
        return [self._document(collection, record) for record in records]

    async def vectors(
        self, target: Target, ids: Sequence[PointId]
    ) -> list[tuple[Document, Sequence[float]]]:
        """The named points that have a dense vector, each with it."""
        if (leg := target.dense) is None:
            return []
        records: list[Point] = []
        for start in range(0, len(ids), PAGE):
            records += await self._client.retrieve(
                target.collection,
                list(ids[start : start + PAGE]),
                with_payload=True,
                with_vectors=[leg.vector] if leg.vector else True,
            )
        return [
            (self._document(target.collection, record), vector)
            for record in records
            if (vector := vector_of(record, leg)) is not None
        ]

    async def beginning(self, collection: str, short: str) -> list[str]:
        """The ids that begin so, two at most: ids are read in their order."""
        records, _ = await self._client.scroll(
            collection, limit=2, offset=first_id(short), with_payload=False
        )
        return [str(one.id) for one in records if str(one.id).startswith(short)]

    def as_read(self, part: Document) -> Document:
        """A part that was made here, as a reader gets it."""
        return document_of(
            part.collection, part.id, stored_payload(part), self._content_fields, self.identify
        )

    async def first(self, collection: str, document: str) -> Document | None:
        """The first part of a document that we stored: it tells which parts are to it."""
        found = await self.by_id(collection, [self.identify(collection, document, 0)])
        return found[0] if found else None

    async def parts(self, document: Document, first: int, last: int) -> list[Document]:
        """The parts `first` to `last` (both counted) of the document's version, in order."""
        found = await self.by_id(document.collection, self.part_ids(document, first, last))
        same = [part for part in found if part.version == document.version]
        return sorted(same, key=lambda part: part.chunk)

    def part_ids(self, text: Document, first: int = 0, last: int | None = None) -> list[PointId]:
        """The ids of the parts `first` to `last` (both counted) of the text's version, of all.

        A text of another tool has one part.
        """
        if text.document is None:
            return [text.id]
        numbers = range(first, text.chunks if last is None else last + 1)
        return [sibling_id(text, number, self.identify) for number in numbers]

    async def current(self, found: Sequence[Document]) -> list[Document | None]:
        """For each, itself if it belongs to its document as that is now, else its first part.

        None where that is gone, or was never there: a write was cut short, or is under way.
        """
        heads: dict[PointId, Document | None] = {part.head: None for part in found if part.head}
        if not heads:
            return list(found)
        present = await self.by_id(found[0].collection, list(heads))
        heads |= {head.id: head for head in present}
        return [
            part if part.head is None or part.current(heads[part.head]) else heads[part.head]
            for part in found
        ]

    async def existing(self, collection: str, ids: Sequence[PointId]) -> int:
        """How many of these points exist."""
        return await self.count(collection, models.Filter(must=[among(ids)])) if ids else 0

    async def count(self, collection: str, where: models.Filter | None = None) -> int:
        """The exact number of points, of those that match."""
        return int((await self._client.count(collection, count_filter=where)).count)

    async def matching(
        self,
        collection: str,
        where: models.Filter | None,
        most: int | None = None,
        *,
        whole: bool = False,
    ) -> list[Document]:
        """The points that match, at most so many.

        Unless they are wanted `whole`, their payload tells only which part of which text they are,
        and when that was written.
        """
        found: list[Document] = []
        size, shown = min(PAGE, most or PAGE), True if whole else list(_PLACE)
        async for page in pages(self._client, collection, size, where, with_payload=shown):
            found += [self._document(collection, record) for record in page]
            if most and len(found) >= most:
                break
        return found[:most]

    async def placed(self, collection: str, ids: Sequence[PointId]) -> list[Document]:
        """Those of the named points that there are, as `matching` gives them."""
        return await self.matching(collection, models.Filter(must=[among(ids)])) if ids else []

    async def pending(self, collection: str, most: int) -> list[Document]:
        """Points that were stored while there was no model, at most so many."""
        where = models.Filter(must=[equal(PENDING_KEY, PENDING)])
        return await self.matching(collection, where, most, whole=True)

    async def further(self, head: Document) -> list[Document]:
        """All further parts of a document, of whatever version, without their texts."""
        further = models.FieldCondition(key=CHUNK_KEY, range=models.Range(gte=1))
        where = models.Filter(must=[equal(DOCUMENT_KEY, head.document), further])
        found = await self.matching(head.collection, where)
        return [part for part in found if part.head == head.id]

    async def leftovers(
        self, head: Document, ids: Sequence[PointId] | None = None
    ) -> list[Document]:
        """The further parts that earlier versions of a text left; none that is being written.

        `ids`: only among these.
        """
        known = self.further(head) if ids is None else self.placed(head.collection, ids)
        further = [one for one in await known if one.writing is None]
        # Read after them: the parts of whoever replaces this one from now on were marked.
        now = await self.first(head.collection, head.document or "")
        return [one for one in further if now is not None and not one.current(now)]

    async def of_files(
        self, collection: str, sources: Iterable[str]
    ) -> list[tuple[PointId, Payload]]:
        """Every point of a file of these sources: its id, and `doc` of its payload."""
        found = pages(self._client, collection, PAGE, _of_sources(sources), with_payload=["doc"])
        return [
            (one.id, (one.payload or {}).get("doc", {})) async for page in found for one in page
        ]

    async def count_of_files(self, collection: str, sources: Iterable[str]) -> int:
        """The number of points of files of these sources."""
        return await self.count(collection, _of_sources(sources))

    def _document(self, collection: str, record: Point) -> Document:
        fields, identify = self._content_fields, self.identify
        return document_of(collection, record.id, record.payload, fields, identify)


def _of_sources(sources: Iterable[str]) -> models.Filter:
    return models.Filter(must=[one_of(SOURCE_KEY, sources)])
