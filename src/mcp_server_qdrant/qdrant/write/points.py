"""Writes points: create collections, upsert, update, delete, and clean up."""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

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
from mcp_server_qdrant.core.errors import EngineFailure, Outdated, RequestError
from mcp_server_qdrant.core.notation import Identify, cite, name_fault, point_id
from mcp_server_qdrant.core.writes import Changes, Encoded
from mcp_server_qdrant.qdrant.engine import Engine, WholeEngine
from mcp_server_qdrant.qdrant.filters import (
    FieldType,
    equal,
    has_id,
    index_type,
    one_of,
    same_point,
    unchanged_since,
)
from mcp_server_qdrant.qdrant.payload import (
    CHUNK_KEY,
    DOCUMENT_KEY,
    EXPIRES,
    HASH_KEY,
    PENDING_KEY,
    PROJECT_KEY,
    SOURCE_KEY,
    UPDATED_KEY,
    VERSION_KEY,
    WRITERS,
    WRITING_KEY,
    document_of,
    edits_of,
    key_path,
    stored_payload,
)
from mcp_server_qdrant.qdrant.read.points import PAGE, PENDING, PointReader
from mcp_server_qdrant.qdrant.texts import paths_of, text_at

TIMES = 100  # write times per filter
PATIENCE = 6 * 3600  # seconds that the write of one text may take, as for a large file
DATE_INDEX, KEYWORD_INDEX = models.PayloadSchemaType.DATETIME, models.PayloadSchemaType.KEYWORD
_RANGE_INDEX = models.IntegerIndexParams(
    type=models.IntegerIndexType.INTEGER, lookup=False, range=True
)
# The embedded engine syncs eight files per index at every flush, so keep them few.
_INDEXES: Mapping[str, Any] = {
    **dict.fromkeys((DOCUMENT_KEY, PENDING_KEY, *TAG_KEYS), KEYWORD_INDEX),
    **dict.fromkeys((DATE_KEY, UPDATED_KEY, "metadata.date"), DATE_INDEX),
    **dict.fromkeys((CHUNK_KEY, WRITING_KEY), _RANGE_INDEX),
}
# Other fields in filters: a strict server refuses them without an index.
SERVER_INDEXES: Mapping[str, Any] = {
    **dict.fromkeys((VERSION_KEY, PROJECT_KEY, SUPERSEDED_KEY, *WRITERS), KEYWORD_INDEX),
    "created_at": DATE_INDEX,
}
WRITING = models.FieldCondition(key=WRITING_KEY, range=models.Range(gte=0))


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The parameters of a new collection: its dense vector (None: no vector) and metadata."""

    vector: str | None
    size: int
    metadata: Mapping[str, Any]


@dataclass(slots=True)
class Tally:
    """Counts points written, and points that got their vector later."""

    written: int = 0
    filled: int = 0


class Points(PointReader):
    """Writes and reads points. All methods raise our errors.

    Collections of ours get indexes on these metadata `fields`, the `indexes`, and what this server
    filters by. `tally` counts the writes.
    """

    def __init__(
        self,
        client: Engine,
        content_fields: Sequence[str],
        fields: Sequence[tuple[str, FieldType]] = (),
        *,
        identify: Identify = point_id,
        indexes: Mapping[str, Any] | None = None,
        tally: Tally | None = None,
    ) -> None:
        super().__init__(client, content_fields, identify)
        named = {f"metadata.{name}": index_type(kind) for name, kind in fields}
        self._indexes: Mapping[str, Any] = {**(indexes or {}), **_INDEXES, **named}
        self._indexed: set[tuple[str, str]] = set()  # collections and fields
        self._tally = tally or Tally()

    async def create(self, collection: str, blueprint: Blueprint) -> bool:
        """Create the collection with its vectors and indexes; False if it exists.

        Raises RequestError for a name that Qdrant or a file system does not accept.
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
        if made:  # for a tenant it may be an existing one
            self._indexed = {one for one in self._indexed if one[0] != collection}
            there = await self._client.get_collection(collection)
            await self.index(collection, there.payload_schema)
        return made

    async def index(self, collection: str, present: Container[str], *more: str) -> None:
        """Create missing indexes, including those on `more` fields, once per process.

        Some are missing if the creation was interrupted or a setting added a field.
        """
        if SOURCE_KEY in more and SERVER_INDEXES.keys() <= self._indexes.keys():
            more = (*more, HASH_KEY)  # by which `delete_file_points` filters
        wanted = {**self._indexes, **dict.fromkeys(more, KEYWORD_INDEX)}
        missing = {key: one for key, one in wanted.items() if key not in present}
        new = {(collection, key) for key in missing} - self._indexed
        if new:
            await self._client.create_payload_indexes(collection, missing)
            self._indexed |= new

    async def exchange(self, target: Target, one: Encoded, seen: Document | None) -> None:
        """Replace a part if it is unchanged since it was `seen`; None: insert if it is missing."""
        if seen is None:
            await self.upsert(target, [one], update_mode=models.UpdateMode.INSERT_ONLY)
        else:
            same, mode = same_point(seen), models.UpdateMode.UPDATE_ONLY
            await self.upsert(target, [one], update_filter=same, update_mode=mode)

    # Points of other tools

    async def read_record(self, one: Document) -> Any:
        """The stored point with all its vectors.

        Raises Outdated if it was changed or deleted since it was read.
        """
        found = await self._client.retrieve(
            one.collection, [one.id], with_payload=True, with_vectors=True
        )
        now = self._document(one.collection, found[0]) if found else None
        if now is None or now.revision.changed_since(one.revision):
            raise Outdated
        return found[0]

    def check_replaceable(self, target: Target, record: Any, *, moved: bool = False) -> None:
        """Raise RequestError if rewriting the point would lose data.

        `moved`: it becomes a text of ours, in another collection.
        """
        vectors, payload = record.vector or {}, record.payload or {}
        present = vectors.keys() if isinstance(vectors, dict) else {""}
        ours = {leg.vector for leg in (target.dense, target.written) if leg is not None}
        lost = [f"the vector {cite(name)}" for name in sorted(present - ours)]
        found = text_at(payload, paths_of(self._content_fields, target.collection))
        key = found and found[0]
        if moved:
            one = document_of(target.collection, record.id, payload, self._content_fields)
            kept = stored_payload(one)
            places = kept, kept["metadata"] or {}
            lost += [
                f"the key {cite(name)}"
                for name, value in sorted(payload.items())
                if value and name != key and value not in [place.get(name) for place in places]
            ]
        if not isinstance(payload.get(key or ""), str):
            lost = [f"its text in {cite(key)}" if key else "no text that is known"]
        if lost:
            raise RequestError(
                f"Another tool stored {cite(record.id)}, with {lost[0]}: the text stays as it is "
                f"and where it is. Store a new one with supersedes={cite(record.id)}."
            )

    async def rewrite(self, target: Target, one: Encoded, seen: Document) -> None:
        """Replace the point's text and vectors; the rest of the payload is unchanged.

        Raises Outdated if it was changed since it was `seen`.
        """
        payload = (await self.read_record(seen)).payload
        key, _ = text_at(payload, paths_of(self._content_fields, seen.collection)) or ("", "")
        point = models.PointStruct(
            id=seen.id, vector=_vectors(target, one), payload=payload | {key: one.part.text}
        )
        await self._client.upsert(
            seen.collection,
            [point],
            update_filter=models.Filter(must=[equal(key_path(key), seen.text)]),
            update_mode=models.UpdateMode.UPDATE_ONLY,
        )
        self._tally.written += 1
        now = await self.by_id(seen.collection, [seen.id])
        if not now or now[0].text != one.part.text:
            raise Outdated

    def edits(
        self, collection: str, record: Any, changes: Changes
    ) -> list[tuple[str | None, Payload]]:
        """What changes in the payload of another tool's point; see `edits_of`."""
        fields = paths_of(self._content_fields, collection)
        top, inside = edits_of(record.payload or {}, changes, fields)
        return [(None, top), ("metadata", inside)]

    async def change_payload(
        self, one: Document, edits: Iterable[tuple[str | None, Payload]]
    ) -> None:
        """Change keys of a payload or of an object in it; None removes a key."""
        for place, values in edits:
            given = {key: value for key, value in values.items() if value is not None}
            gone = [key_path(*filter(None, [place]), key) for key in values if key not in given]
            if given:
                await self._client.set_payload(one.collection, given, [one.id], key=place)
            if gone:
                await self._client.delete_payload(one.collection, gone, [one.id])

    # All points

    async def upsert(self, target: Target, parts: Sequence[Encoded], **only: Any) -> None:
        """Write the parts with the collection's vectors. Durable when acknowledged."""
        structs = [_struct(target, one) for one in parts]
        await self._client.upsert(target.collection, structs, **only)
        self._tally.written += len(structs)

    async def index_pending(self, collection: str) -> None:
        """Index the pending mark in another tool's collection, so that the points are found."""
        await self._client.create_payload_indexes(collection, {PENDING_KEY: KEYWORD_INDEX})

    async def index_expiry(self, collection: str) -> None:
        """Index when texts expire: from then on searches leave out those that have."""
        await self._client.create_payload_indexes(collection, {EXPIRES: DATE_INDEX})

    async def settle(self, collection: str, ids: Sequence[PointId]) -> None:
        """Remove the writing mark from these points: their write is complete."""
        if ids:
            await self._client.delete_payload(collection, [WRITING_KEY], list(ids))

    async def retire(self, old: Document, new: str, collection: str) -> None:
        """Mark all parts of a document as superseded by the document `new`."""
        mark = {SUPERSEDED_KEY: new}
        if collection != old.collection or old.superseded_in:
            mark[SUPERSEDED_IN] = collection
        await self._client.set_payload(old.collection, mark, self.part_ids(old))

    async def unmark(self, collection: str, keys: Sequence[str], ids: Sequence[PointId]) -> None:
        """Remove keys from the payload of these points."""
        await self._client.delete_payload(collection, list(keys), list(ids))

    async def delete_seen(self, seen: Sequence[Document]) -> None:
        """Delete these points of one collection, except those written since they were read.

        Points with the same write time, such as the parts of a text, are deleted together.
        """
        times: dict[tuple[bool, bool, str | None], list[Document]] = {}
        for one in seen:
            key = one.document is None, one.writing is None, one.updated_at
            times.setdefault(key, []).append(one)
        each: list[models.Condition] = []
        for (_, settled, _), some in times.items():
            must = [has_id(one.id for one in some), *unchanged_since(some[0].revision)]
            # A point that was being written may be complete by now. For a file the write time is
            # the file's date, so it does not tell writes apart.
            if settled:
                each.append(models.Filter(must=must, must_not=[WRITING]))
            else:
                each.append(models.Filter(must=[*must, WRITING]))
        for start in range(0, len(each), TIMES):
            where = models.Filter(should=each[start : start + TIMES])
            await self._client.delete(seen[0].collection, where)

    async def sweep(self, collection: str, now: Callable[[], float] = time.time) -> int:
        """Clean up after interrupted writes; returns the number of points removed.

        Readers ignore orphans, which are parts of another version than their first part, but these
        take room and count as points. A write that may still be under way is left alone.
        """
        marked = await self.matching(collection, models.Filter(must=[WRITING]))
        heads = [head for head in marked if head.head is None]
        further = [part for head in heads for part in await self.further_parts(head)]
        found = [*marked, *(part for part in further if part.writing is None)]
        present = await self.current_parts(found)
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

    async def record_mtime(
        self, collection: str, ids: Sequence[PointId], contents: Iterable[str], mtime: int
    ) -> None:
        """Record that a file with these points had the same contents at this mtime."""
        for these in _filter_unchanged(ids, contents):
            await self._client.set_payload(collection, {"seen": mtime}, these, key="doc.file")

    async def delete_file_points(
        self, collection: str, ids: Sequence[PointId], contents: Iterable[str]
    ) -> None:
        """Delete these points, except those that another run rewrote with other contents."""
        for these in _filter_unchanged(ids, contents):
            await self._client.delete(collection, these)

    async def fill_pending(self, target: Target, made: Sequence[tuple[Document, Dense]]) -> None:
        """Write the dense vectors of pending points, then remove their pending marks.

        Points whose text has changed are skipped; an empty vector is not written.
        """
        assert target.dense is not None
        if made:
            waiting = [same_point(one, equal(PENDING_KEY, one.pending)) for one, _ in made]
            where = models.Filter(should=waiting)
            if vectors := {one.id: dense for one, dense in made if dense}:
                await self.write_vector(target.collection, target.dense.vector, vectors, where)
            await self._client.delete_payload(target.collection, [PENDING_KEY], where)
            self._tally.filled += len(vectors)

    async def write_vector(
        self,
        name: str,
        vector: str,
        vectors: Mapping[PointId, Sparse | Dense],
        where: models.Filter,
    ) -> None:
        """Write one vector of existing points that match; nothing else changes."""
        updates = [
            models.PointVectors(id=point, vector={vector: held} if vector else held)
            for point, held in zip(vectors, map(as_vector, vectors.values()), strict=True)
        ]
        # Tenants never write vectors this way.
        engine = cast("WholeEngine", self._client)
        await engine.update_vectors(name, updates, update_filter=where)


def _filter_unchanged(ids: Sequence[PointId], contents: Iterable[str]) -> Iterator[models.Filter]:
    """Filters, in batches, for the points that still belong to a file with these contents."""
    old = one_of(HASH_KEY, sorted(contents))
    for first in range(0, len(ids), PAGE):
        yield models.Filter(must=[has_id(ids[first : first + PAGE]), old])


async def create(client: Engine, name: str, **how: Any) -> bool:
    """Create a collection; False if another caller has just created it."""
    try:
        return bool(await client.create_collection(name, **how))
    except (EngineFailure, RequestError):
        if await client.collection_exists(name):
            return False
        raise


def as_vector(value: Sparse | Dense) -> Any:
    """A vector in qdrant-client's form."""
    if isinstance(value, Sparse):
        return models.SparseVector(indices=list(value.indices), values=list(value.values))
    return list(value)


def _vectors(target: Target, one: Encoded) -> Any:
    vectors: dict[str, Any] = {}
    if target.dense is not None and one.dense:
        vectors[target.dense.vector] = as_vector(one.dense)
    if target.written is not None and one.sparse.indices:
        vectors[target.written.vector] = as_vector(one.sparse)
    return vectors[""] if target.written is None and "" in vectors else vectors


def _struct(target: Target, one: Encoded) -> models.PointStruct:
    payload = stored_payload(one.part)
    if target.dense is not None and one.dense is None:
        payload["doc"]["pending"] = [PENDING, str(one.part.revision)]
    return models.PointStruct(id=one.part.id, vector=_vectors(target, one), payload=payload)
