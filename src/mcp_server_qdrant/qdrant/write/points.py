"""The write side of the engine: create, upsert, delete, and points by id or by document."""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import (
    SPARSE_NAME,
    SUPERSEDED_IN,
    SUPERSEDED_KEY,
    TAG_KEYS,
    Dense,
    Document,
    Payload,
    PointId,
    Sparse,
    Target,
)
from mcp_server_qdrant.core.dates import DATE_KEY
from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.core.notation import (
    Identify,
    first_id,
    moment,
    name_fault,
    point_id,
    sibling_id,
)
from mcp_server_qdrant.core.writes import Encoded
from mcp_server_qdrant.qdrant.filters import (
    FieldType,
    among,
    equal,
    index_type,
    one_of,
)
from mcp_server_qdrant.qdrant.legs import vector_of
from mcp_server_qdrant.qdrant.paging import pages
from mcp_server_qdrant.qdrant.payload import (
    CHUNK_KEY,
    CHUNKS_KEY,
    DOCUMENT_KEY,
    HASH_KEY,
    PENDING_KEY,
    SOURCE_KEY,
    UPDATED_KEY,
    VERSION_KEY,
    WRITERS,
    WRITING_KEY,
    document_of,
    stored_payload,
)

PENDING = "dense"
PAGE = 500
TIMES = 100  # in one filter
PATIENCE = 6 * 3600  # seconds that one write of a text may take; a large file of a folder does
DATE_INDEX, KEYWORD_INDEX = models.PayloadSchemaType.DATETIME, models.PayloadSchemaType.KEYWORD
_RANGE_INDEX = models.IntegerIndexParams(
    type=models.IntegerIndexType.INTEGER, lookup=False, range=True
)
# The embedded engine syncs eight files of each at every flush, so they are few.
_INDEXES: Mapping[str, Any] = {
    **dict.fromkeys((DOCUMENT_KEY, PENDING_KEY, *TAG_KEYS), KEYWORD_INDEX),
    **dict.fromkeys((DATE_KEY, UPDATED_KEY, "metadata.date"), DATE_INDEX),
    **dict.fromkeys((CHUNK_KEY, WRITING_KEY), _RANGE_INDEX),
}
# What else is filtered by: a server may refuse that without an index, the embedded engine does not.
SERVER_INDEXES: Mapping[str, Any] = {
    **dict.fromkeys((VERSION_KEY, *WRITERS), KEYWORD_INDEX),
    "created_at": DATE_INDEX,
}
# What tells which text, of which version, a point is a part of, and when it was written.
_PLACE = (DOCUMENT_KEY, CHUNK_KEY, CHUNKS_KEY, VERSION_KEY, WRITING_KEY, UPDATED_KEY)
WRITING = models.FieldCondition(key=WRITING_KEY, range=models.Range(gte=0))


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The parameters of a new collection: its dense vector, None for none, and its model."""

    vector: str | None
    size: int
    metadata: Mapping[str, Any]


@dataclass(slots=True)
class Tally:
    """The number of points written, and of those that got their vector later."""

    written: int = 0
    filled: int = 0


class Points:
    """Writes, and the reads that name points. All raise our errors.

    `fields` of the metadata are indexed in collections of ours, and `indexes`, beside what this
    server filters by. `identify` tells the id of a chunk, `tally` counts.
    """

    def __init__(
        self,
        client: Any,
        content_fields: Sequence[str],
        fields: Sequence[tuple[str, FieldType]] = (),
        *,
        identify: Identify = point_id,
        indexes: Mapping[str, Any] | None = None,
        tally: Tally | None = None,
    ) -> None:
        self._client = client
        self._content_fields = tuple(content_fields)
        self.identify = identify
        named = {f"metadata.{name}": index_type(kind) for name, kind in fields}
        self._indexes: Mapping[str, Any] = {**(indexes or {}), **_INDEXES, **named}
        self._indexed: set[tuple[str, str]] = set()  # collections and fields
        self._tally = tally or Tally()

    async def create(self, collection: str, blueprint: Blueprint) -> bool:
        """Make the collection with dense, `bm25` and its indexes; False where it is there already.

        Raises RequestError for a name that Qdrant or a file system would not take.
        """
        if fault := name_fault(collection):
            raise RequestError(fault)
        dense = models.VectorParams(size=blueprint.size, distance=models.Distance.COSINE)
        keywords = models.SparseVectorParams(modifier=models.Modifier.IDF)
        made = await create(
            self._client,
            collection,
            vectors_config={} if blueprint.vector is None else {blueprint.vector: dense},
            sparse_vectors_config={SPARSE_NAME: keywords},
            metadata=dict(blueprint.metadata),
        )
        if made:  # a tenant may have been given what others made before
            self._indexed = {one for one in self._indexed if one[0] != collection}
            there = await self._client.get_collection(collection)
            await self.index(collection, there.payload_schema)
        return made

    async def index(self, collection: str, present: Container[str], *more: str) -> None:
        """Make the indexes, and those of `more` fields, that are not among the `present` ones.

        Once in this process: a collection lacks some where its creation was interrupted, or a
        setting added a field.
        """
        if SOURCE_KEY in more and SERVER_INDEXES.keys() <= self._indexes.keys():
            more = (*more, HASH_KEY)  # by which `delete_of_files` filters
        wanted = {**self._indexes, **dict.fromkeys(more, KEYWORD_INDEX)}
        missing = {key: one for key, one in wanted.items() if key not in present}
        new = {(collection, key) for key in missing} - self._indexed
        if new:
            await self._client.create_payload_indexes(collection, missing)
            self._indexed |= new

    async def exchange(self, target: Target, one: Encoded, seen: Document | None) -> None:
        """Write a part in the place of the one that was seen, if that is still as it was.

        None: where there was none.
        """
        if seen is None:
            await self.upsert(target, [one], update_mode=models.UpdateMode.INSERT_ONLY)
        else:
            only, mode = models.Filter(must=as_seen(seen)), models.UpdateMode.UPDATE_ONLY
            await self.upsert(target, [one], update_filter=only, update_mode=mode)

    async def upsert(self, target: Target, parts: Sequence[Encoded], **only: Any) -> None:
        """Write the parts with the vectors that the collection has. Acknowledged when durable."""
        structs = [
            models.PointStruct(
                id=one.part.id, vector=_vectors(target, one), payload=_payload(target, one)
            )
            for one in parts
        ]
        await self._client.upsert(target.collection, structs, **only)
        self._tally.written += len(structs)

    async def expect_pending(self, collection: str) -> None:
        """Index the pending mark in a collection of another maker, so that it is found again."""
        await self._client.create_payload_indexes(collection, {PENDING_KEY: KEYWORD_INDEX})

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
        records: list[Any] = []
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

    async def settle(self, collection: str, ids: Sequence[PointId]) -> None:
        """The write of these points is done: take the mark of it off."""
        if ids:
            await self._client.delete_payload(collection, [WRITING_KEY], list(ids))

    async def retire(self, old: Document, new: str, collection: str) -> None:
        """Mark all parts of a document as superseded by the one of this id and collection."""
        mark = {SUPERSEDED_KEY: new}
        if collection != old.collection or old.superseded_in:
            mark[SUPERSEDED_IN] = collection
        await self._client.set_payload(old.collection, mark, self.part_ids(old))

    async def delete_seen(self, seen: Sequence[Document]) -> None:
        """Remove these points of one collection, but for those written since they were seen.

        Those that were written at the same time, as the parts of a text are, go in one step.
        """
        times: dict[tuple[bool, bool, str | None], list[Document]] = {}
        for one in seen:
            key = one.document is None, one.writing is None, one.updated_at
            times.setdefault(key, []).append(one)
        each: list[models.Condition] = []
        for (_, settled, _), some in times.items():
            must = [among(one.id for one in some), *as_seen(some[0])]
            # What was being written may be part of a text by now. And a file's date stands for the
            # time of writing, however often it is stored.
            each.append(
                models.Filter(must=must, must_not=[WRITING])
                if settled
                else models.Filter(must=[*must, WRITING])
            )
        for start in range(0, len(each), TIMES):
            where = models.Filter(should=each[start : start + TIMES])
            await self._client.delete(seen[0].collection, where)

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

    async def sweep(self, collection: str, now: Callable[[], float] = time.time) -> int:
        """Finish interrupted writes of texts, and return the number of points removed.

        No reader is shown a part that is not of the version of its first part. Such parts take
        room, and count as points until then. A write that may still be under way is left alone.
        """
        marked = await self.matching(collection, models.Filter(must=[WRITING]))
        heads = [head for head in marked if head.head is None]
        further = [part for head in heads for part in await self.further(head)]
        found = [*marked, *(part for part in further if part.writing is None)]
        present = await self.current(found)
        before = now() - PATIENCE
        over = [
            part
            for part, there in zip(found, present, strict=True)
            if there is not part and (part.writing is None or part.writing < before)
        ]
        whole = [part.id for part, there in zip(marked, present, strict=False) if there is part]
        await self.delete_seen(over)
        await self.settle(collection, whole)
        return len(over)

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

    async def file_seen(
        self, collection: str, ids: Sequence[PointId], contents: Iterable[str], mtime: int
    ) -> None:
        """Note at these points of a file that it still had these contents at that time."""
        for these in _still_of(ids, contents):
            await self._client.set_payload(collection, {"seen": mtime}, these, key="doc.file")

    async def delete_of_files(
        self, collection: str, ids: Sequence[PointId], contents: Iterable[str]
    ) -> None:
        """Remove these points as far as they are still of a file with these contents.

        What another run has written to them meanwhile stays.
        """
        for these in _still_of(ids, contents):
            await self._client.delete(collection, these)

    async def fill(self, target: Target, vectors: Mapping[str | int, Dense]) -> None:
        """Give pending points their dense vector, then take the mark off."""
        assert target.dense is not None
        if vectors:
            await self.give(target.collection, target.dense.vector, vectors)
            await self._client.delete_payload(target.collection, [PENDING_KEY], list(vectors))
            self._tally.filled += len(vectors)

    async def give(self, name: str, vector: str, vectors: Mapping[PointId, Sparse | Dense]) -> None:
        """Write one vector of points that exist; the rest of them stays as it is."""
        updates = [
            models.PointVectors(id=point, vector={vector: held} if vector else held)
            for point, held in zip(vectors, map(as_vector, vectors.values()), strict=True)
        ]
        await self._client.update_vectors(name, updates)

    def _document(self, collection: str, record: Any) -> Document:
        fields, identify = self._content_fields, self.identify
        return document_of(collection, record.id, record.payload, fields, identify)


def _of_sources(sources: Iterable[str]) -> models.Filter:
    return models.Filter(must=[one_of(SOURCE_KEY, sources)])


def _still_of(ids: Sequence[PointId], contents: Iterable[str]) -> Iterator[models.Filter]:
    """These points, as far as they are of a file with these contents, some at a time."""
    old = one_of(HASH_KEY, sorted(contents))
    for first in range(0, len(ids), PAGE):
        yield models.Filter(must=[among(ids[first : first + PAGE]), old])


async def create(client: Any, name: str, **how: Any) -> bool:
    """Make a collection; False where there is one, made by another caller since we looked."""
    try:
        return bool(await client.create_collection(name, **how))
    except (EngineFailure, RequestError):
        if await client.collection_exists(name):
            return False
        raise


def as_seen(seen: Document) -> list[models.Condition]:
    """The conditions that a point has not been written since it was seen; none for another tool's,
    which says nothing of when it was.
    """
    when = seen.updated_at
    if seen.document is not None and when is None:  # of a file without a date that was moved
        ever = models.DatetimeRange(gte="0001-01-01T00:00:00Z")
        return [models.Filter(must_not=[models.FieldCondition(key=UPDATED_KEY, range=ever)])]
    if seen.document is None or moment(when) is None:
        return []
    return [models.FieldCondition(key=UPDATED_KEY, range=models.DatetimeRange(gte=when, lte=when))]


def as_vector(value: Sparse | Dense) -> Any:
    """A vector of a point as qdrant-client takes it."""
    if isinstance(value, Sparse):
        return models.SparseVector(indices=list(value.indices), values=list(value.values))
    return list(value)


def _vectors(target: Target, one: Encoded) -> Any:
    vectors: dict[str, Any] = {}
    sparse = target.written
    if target.dense is not None and one.dense is not None:
        if target.dense.vector == "" and sparse is None:
            return as_vector(one.dense)
        vectors[target.dense.vector] = as_vector(one.dense)
    if sparse is not None and one.sparse.indices:
        vectors[sparse.vector] = as_vector(one.sparse)
    return vectors


def _payload(target: Target, one: Encoded) -> Payload:
    payload = stored_payload(one.part)
    if target.dense is not None and one.dense is None:
        payload["doc"]["pending"] = PENDING
    return payload
