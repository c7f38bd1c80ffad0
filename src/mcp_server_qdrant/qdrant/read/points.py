"""Reads points by id, by document or by a filter, as Documents."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import (
    SUPERSEDED_KEY,
    Document,
    Payload,
    PointId,
    Target,
)
from mcp_server_qdrant.core.errors import UnknownCollection
from mcp_server_qdrant.core.expiry import is_expired
from mcp_server_qdrant.core.notation import Identify, first_id, point_id, sibling_id
from mcp_server_qdrant.qdrant.engine import Engine, Point, Shown
from mcp_server_qdrant.qdrant.filters import equal, has_id, one_of
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
from mcp_server_qdrant.qdrant.texts import Texts

PENDING = "dense"
PAGE = 500
# The fields that identify a part: its text, version, number and write time.
_PLACE = (DOCUMENT_KEY, CHUNK_KEY, CHUNKS_KEY, VERSION_KEY, WRITING_KEY, UPDATED_KEY)


class PointReader:
    """Reads points. All methods raise our errors. `identify` gives the id of a chunk."""

    def __init__(
        self,
        client: Engine,
        content_fields: Sequence[str],
        identify: Identify = point_id,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._content_fields = content_fields
        self.identify = identify
        self._now = now

    async def by_id(self, collection: str, ids: Sequence[PointId]) -> list[Document]:
        """The named points as Documents; missing ones are left out."""
        return await self._documents(collection, await self._retrieve(collection, ids))

    async def _retrieve(
        self, collection: str, ids: Sequence[PointId], *, with_vectors: Shown = False
    ) -> list[Point]:
        """The named points, read in pages."""
        found = list[Point]()
        for start in range(0, len(ids), PAGE):
            found += await self._client.retrieve(
                collection,
                list(ids[start : start + PAGE]),
                with_payload=True,
                with_vectors=with_vectors,
            )
        return found

    async def with_vectors(
        self, target: Target, ids: Sequence[PointId]
    ) -> list[tuple[Document, Sequence[float] | None]]:
        """The named points, each with its dense vector if it has one."""
        leg = target.dense
        shown = leg is not None and ([leg.vector] if leg.vector else True)
        records = await self._retrieve(target.collection, ids, with_vectors=shown)
        return [
            (self._document(target.collection, record), vector_of(record, leg) if leg else None)
            for record in records
        ]

    async def ids_with_prefix(self, collection: str, short: str) -> list[str]:
        """At most two ids with this prefix; ids are scrolled in order."""
        records, _ = await self._client.scroll(
            collection, limit=2, offset=first_id(short), with_payload=False
        )
        return [str(one.id) for one in records if str(one.id).startswith(short)]

    def as_stored(self, part: Document) -> Document:
        """A part made in this process, in the form in which it would be read back."""
        return document_of(
            part.collection, part.id, stored_payload(part), self._content_fields, self.identify
        )

    async def first(self, collection: str, document: str) -> Document | None:
        """The first part of a document that we stored; None if it is missing."""
        found = await self.by_id(collection, [self.identify(collection, document, 0)])
        return found[0] if found else None

    async def find_heir(self, one: Document) -> Document | None:
        """The text that superseded this one; None if there is none, or it is deleted or expired."""
        ids = [] if one.heir is None else [one.heir]
        with suppress(UnknownCollection):
            for heir in await self.by_id(one.superseded_in or one.collection, ids):
                return None if is_expired(heir, self._now()) else heir
        return None

    async def superseded_by(self, collection: str, ids: Iterable[str]) -> list[Document]:
        """The texts that these of the same collection superseded, by their first parts."""
        where = models.Filter(must=[one_of(SUPERSEDED_KEY, ids)])
        found = await self.matching(collection, where, whole=True)
        return [one for one in found if one.chunk == 0 and not one.superseded_in]

    async def check_heirs(self, found: Sequence[Document]) -> list[Document]:
        """The documents; those whose heir is gone count as not superseded."""
        return [
            one if one.heir is None or await self.find_heir(one) else one._replace(heir=None)
            for one in found
        ]

    async def parts(self, document: Document, first: int, last: int) -> list[Document]:
        """The parts `first` to `last` (inclusive) of the document's version, in order."""
        found = await self.by_id(document.collection, self.part_ids(document, first, last))
        same = [part for part in found if part.version == document.version]
        return sorted(same, key=lambda part: part.chunk)

    def part_ids(self, text: Document, first: int = 0, last: int | None = None) -> list[PointId]:
        """The ids of the parts `first` to `last` (inclusive; default: all) of the text's version.

        A text of another tool has one part.
        """
        if text.document is None:
            return [text.id]
        numbers = range(first, text.chunks if last is None else last + 1)
        return [sibling_id(text, number) for number in numbers]

    async def current_parts(self, found: Sequence[Document]) -> list[Document | None]:
        """For each part, itself if it belongs to the current version, else the first part.

        None if there is no first part: it was deleted, or a write was interrupted or is under way.
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

    async def find_unchanged(self, seen: Sequence[Document]) -> list[PointId]:
        """Those of these points of one collection that are as they were seen."""
        now = await self.by_id(seen[0].collection, [one.id for one in seen]) if seen else []
        present = {one.id: one.revision for one in now}
        return [one.id for one in seen if present.get(one.id) == one.revision]

    async def count_existing(self, collection: str, ids: Sequence[PointId]) -> int:
        """How many of these points exist."""
        return await self.count(collection, models.Filter(must=[has_id(ids)])) if ids else 0

    async def is_whole(self, head: Document, further: Sequence[PointId]) -> bool:
        """Whether the first part still has this version and all of these parts exist."""
        first = models.Filter(must=[has_id([head.id]), equal(VERSION_KEY, head.version)])
        where = models.Filter(should=[first, has_id(further)])
        return await self.count(head.collection, where) == 1 + len(further)

    async def count(self, collection: str, where: models.Filter | None = None) -> int:
        """The exact number of (matching) points."""
        return int((await self._client.count(collection, count_filter=where)).count)

    async def matching(
        self,
        collection: str,
        where: models.Filter | None,
        most: int | None = None,
        *,
        whole: bool = False,
    ) -> list[Document]:
        """The matching points, at most `most`.

        Unless `whole`, only the fields that identify a part are read.
        """
        found: list[Document] = []
        size, shown = min(PAGE, most or PAGE), True if whole else list(_PLACE)
        async for page in pages(self._client, collection, size, where, with_payload=shown):
            if whole:
                found += await self._documents(collection, page)
            else:
                found += [self._document(collection, record) for record in page]
            if most and len(found) >= most:
                break
        return found[:most]

    async def find_parts(self, collection: str, ids: Sequence[PointId]) -> list[Document]:
        """The existing ones of these points, as `matching` returns them."""
        return await self.matching(collection, models.Filter(must=[has_id(ids)])) if ids else []

    async def pending(self, collection: str, most: int) -> list[Document]:
        """Points stored while no model was available, at most `most`."""
        where = models.Filter(must=[equal(PENDING_KEY, PENDING)])
        return await self.matching(collection, where, most, whole=True)

    async def further_parts(self, head: Document) -> list[Document]:
        """All further parts of a document, of any version, without their texts."""
        further = models.FieldCondition(key=CHUNK_KEY, range=models.Range(gte=1))
        where = models.Filter(must=[equal(DOCUMENT_KEY, head.document), further])
        found = await self.matching(head.collection, where)
        return [part for part in found if part.head == head.id]

    async def settled_parts(
        self, head: Document, ids: Sequence[PointId] | None = None
    ) -> list[Document]:
        """The further parts of a text, of any version or with these ids, without writing mark.

        If the first part is read afterwards, those of another version than its own are orphans:
        the parts of a later replacement still had the mark.
        """
        further = self.further_parts(head) if ids is None else self.find_parts(head.collection, ids)
        return [one for one in await further if one.writing is None]

    async def file_points(
        self, collection: str, sources: Iterable[str]
    ) -> list[tuple[PointId, Payload]]:
        """(id, `doc` of the payload) for each point of files of these sources."""
        found = pages(self._client, collection, PAGE, _of_sources(sources), with_payload=["doc"])
        return [(p.id, (p.payload or {}).get("doc", {})) async for page in found for p in page]

    async def count_file_points(self, collection: str, sources: Iterable[str]) -> int:
        """The number of points of files of these sources."""
        return await self.count(collection, _of_sources(sources))

    async def _documents(self, collection: str, records: Sequence[Point]) -> list[Document]:
        """Whole points as Documents; if some have no text, the collection is sampled first."""
        found = [self._document(collection, record) for record in records]
        texts = self._content_fields
        if not isinstance(texts, Texts) or texts.is_sampled(collection):
            return found
        if not any(one.textless for one in found):
            return found
        await texts.sample(self._client, collection)
        return [self._document(collection, record) for record in records]

    def _document(self, collection: str, record: Point) -> Document:
        fields, identify = self._content_fields, self.identify
        return document_of(collection, record.id, record.payload, fields, identify)


def _of_sources(sources: Iterable[str]) -> models.Filter:
    return models.Filter(must=[one_of(SOURCE_KEY, sources)])
