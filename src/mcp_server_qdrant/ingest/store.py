"""The write path of one text: resolve, split, encode, upsert, delete what it replaces."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from mcp_server_qdrant.core.datatypes import (
    SUPERSEDED_IN,
    SUPERSEDED_KEY,
    Document,
    NewDocument,
    Target,
)
from mcp_server_qdrant.core.dates import own_date
from mcp_server_qdrant.core.errors import (
    EngineFailure,
    Outdated,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
    UnusableFile,
)
from mcp_server_qdrant.core.expiry import is_expired, parse_expiry
from mcp_server_qdrant.core.notation import as_point_id, cite, is_part_id, iso, misspelled, stamp
from mcp_server_qdrant.core.writes import Changes, KeptVersion, Stored
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.chunk import split
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.language import detect_strictly
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.ingest import attributes
from mcp_server_qdrant.ingest.encoding import encoded_text, shortened
from mcp_server_qdrant.ingest.near import Near, near_memories
from mcp_server_qdrant.ingest.parts import Span, numbered, parts_of
from mcp_server_qdrant.ingest.secrets import masked
from mcp_server_qdrant.ingest.supersede import lift, retire
from mcp_server_qdrant.ingest.writer import Encode, Outcomes, Replacement, Writer, vectors_of
from mcp_server_qdrant.qdrant.history import History
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.qdrant.write.points import Blueprint, Points

LOAD_SECONDS = 30.0
RACES = 5  # retries if another process writes the same text
FALLBACK_TOKENS = 128
UNREAD = "the model does not know its characters"
OVERLAP = 0.15
MOST_COMPARED = 64  # other collections that a new text is compared with
NUMBER = re.compile(r"[-_. ]?\d+")
LAST_LETTER = re.compile(r"(?<=[-_. ])[a-z]$", re.IGNORECASE)


@dataclass(eq=False)
class Store:
    """Stores texts. Storing one twice is one document; storing under a known `id` updates it.

    `default` is the collection that is created whatever its name resembles. `pending` is called
    when points wait for their vectors, `written` with each collection and the texts written to it.
    `mask`: secrets in all that is stored are masked.
    """

    catalog: Catalog
    points: Points
    encoders: Registry
    bm25: Bm25Encoder
    blueprint: Callable[[str], Awaitable[Blueprint]]
    default: str | None
    pending: Callable[[], None]
    written: Callable[[str, Sequence[str]], None]
    queries: Queries
    history: History
    mask: bool = True
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(
        default_factory=WeakValueDictionary, init=False
    )
    _told: set[tuple[str, str]] = field(default_factory=set, init=False)  # models and languages

    async def store(
        self,
        new: NewDocument,
        collection: str,
        *,
        create: bool = False,
        supersedes: Sequence[Document] = (),
        seen: str | None = None,
    ) -> Stored:
        """Write one text into one collection, which is created if it is new.

        Raises RequestError if the name looks misspelled (unless `create`) or the collection cannot
        hold our points, Outdated if the text's revision is not `seen`. Without a model the text is
        stored for keyword search and marked as pending. The texts that it `supersedes` are kept.
        """
        attributes.check(new)
        collection = await self.catalog.resolve_alias(collection)
        given = new.text, new.title, new.metadata, new.tags, new.source
        values, secrets = await asyncio.to_thread(self.mask_all, *given)
        text, title, metadata, tags, source = values
        tags = None if tags is None else tuple(dict.fromkeys(tags))
        new = replace(new, text=text, title=title, metadata=metadata, tags=tags, source=source)
        document, foreign = await self._find_document(new, collection)
        async with self.lock(collection, document):
            for more in range(RACES, -1, -1):
                try:
                    made = await self.ensure(collection, create=create)
                    if foreign is not None:
                        done = await self._correct(foreign, new, seen)
                    else:
                        done = await self._store(new, collection, document, seen)
                    break
                except (UnknownCollection, Outdated) as error:
                    # A race with another process; its text is replaced, and kept.
                    if not more or (isinstance(error, Outdated) and seen is not None):
                        raise
                    self.catalog.forget(collection)
        heir = done.heir
        if supersedes:
            for own in await self.points.by_id(collection, done.ids[:1]):
                await self.retire(own, supersedes)
                heir = await self.points.find_heir(own)
        near = tuple(one for one in done.near if one[0] not in supersedes and one[0] != heir)
        hint = await self._language(text, collection)
        done = replace(done, near=near, retired=tuple(supersedes), heir=heir, hint=hint)
        return replace(done, created_collection=made, masked=secrets)

    async def _language(self, text: str, collection: str) -> str:
        """A hint that the collection's model does not know the language; once per language."""
        dense = (await self.catalog.target(collection)).dense
        language = await asyncio.to_thread(detect_strictly, text) if dense else None
        if dense is None or language is None or (dense.model, language) in self._told:
            return ""
        self._told.add((dense.model, language))
        return await self.encoders.hint(dense.model, language, collection)

    def mask_all(self, *values: Any) -> tuple[list[Any], int]:
        """The values with secrets masked if `mask` is set, and the number of secrets."""
        return masked(values) if self.mask else (list(values), 0)

    def _check_name(self, what: str, name: str) -> None:
        """Raise RequestError if a new id or name of a collection holds a secret."""
        if self.mask_all(name)[1]:
            raise RequestError(f"The {what} contains a secret: nothing was stored. Choose another.")

    async def retire(self, new: Document, olds: Sequence[Document]) -> None:
        """Mark `olds` as superseded by `new`. Raises RequestError, BackendError."""
        await retire(self.points, self.lock, new, olds)

    async def lift(self, new: Document) -> list[Document]:
        """Unmark the texts that `new` supersedes, and return them."""
        return await lift(self.points, self.lock, new, await self.catalog.names())

    async def _find_document(
        self, new: NewDocument, collection: str
    ) -> tuple[str, Document | None]:
        """(id of the document to write, the point of another tool that has this id or None).

        The id of a point, as searches show it, means the document that it is a part of.
        """
        if new.id is None:
            return hashlib.sha256(new.text.encode()).hexdigest()[:32], None
        point = as_point_id(new.id)
        if point is not None and await self.catalog.exists(collection):
            for known in await self.points.by_id(collection, [point]):
                return (known.document, None) if known.document else (new.id, known)
            if is_part_id(point):
                raise RequestError(
                    f"The text that {new.id} was a part of was replaced or deleted: store under "
                    "the document's own id, or find it again."
                )
        return new.id, None

    def lock(self, collection: str, document: str) -> asyncio.Lock:
        """The lock of a document: parts of two versions must not be mixed."""
        return self._locks.setdefault((collection, document), asyncio.Lock())

    async def _store(
        self, new: NewDocument, collection: str, document: str, seen: str | None
    ) -> Stored:
        before = await self.points.first(collection, document)
        if before is None:
            self._check_name("id", document)
        while before and new.id is None and not await self._holds(before, new.text):
            # The text under this content id was edited since: store both.
            document = hashlib.sha256(document.encode()).hexdigest()[:32]
            before = await self.points.first(collection, document)
        check_seen(before, seen)
        new, kept = attributes.keep_omitted(new, before)
        ready = await self.ready(collection)
        new = replace(new, expires=await self._choose_expiry(new, before, collection))
        spans = await self.spans(ready[1], new)
        parts = self.parts(new, collection, document, before, spans)
        heir = await self.points.find_heir(before) if before else None
        if heir:  # storing it again does not unmark it
            mark = {key: getattr(before, key) for key in (SUPERSEDED_KEY, SUPERSEDED_IN)}
            parts = [part._replace(**mark) for part in parts]
        done = await self.put(parts, before, ready=ready, compared=True)
        back = before is not None and is_expired(before, self.now())
        known = before.chunks if before else 0
        return replace(done, kept=kept, replaced=known, heir=heir, restored=back)

    async def _choose_expiry(
        self, new: NewDocument, before: Document | None, collection: str
    ) -> str | None:
        """When the text expires: as given, else as before, else the collection's default.

        A text that has expired counts as new.
        """
        now = self.now()
        if new.expires is not None:
            return new.expires
        if before is not None and not is_expired(before, now):
            return before.expires
        usual = await self.catalog.default_expiry(collection)
        with suppress(RequestError):  # a date in the past
            return parse_expiry(usual or "", now)
        return None

    async def _correct(self, foreign: Document, new: NewDocument, seen: str | None) -> Stored:
        """Change the text of another tool's point."""
        now = await self.points.by_id(foreign.collection, [foreign.id])
        if not now or now[0].document is not None:
            raise Outdated
        check_seen(now[0], seen)
        changes = Changes(new.title, new.tags, new.metadata, expires=new.expires)
        done = await self.alter(now[0], changes, new.text)
        heir = await self.points.find_heir(now[0])
        return replace(done, kept=attributes.keep_omitted(new, now[0])[1], heir=heir)

    async def alter(self, one: Document, changes: Changes, text: str | None = None) -> Stored:
        """Change another tool's point in place: payload keys, or its text and its vectors.

        Raises RequestError if that is impossible, Outdated if the point has changed.
        """
        if changes.expires:
            raise RequestError(
                f"Another tool stored {cite(one.id)}: only texts of this server expire. Store it "
                f"without id, with expires and supersedes={cite(one.id)}."
            )
        record = await self.points.read_record(one)
        edits = self.points.edits(one.collection, record, changes)
        new, encoded = changes.applied_to(one), None
        if text is not None and text != one.text:
            new = new._replace(text=text)
            target, encoder = await self.ready(one.collection)
            self.points.check_replaceable(target, record)
            if len(await self.spans(encoder, new)) > 1:
                raise RequestError(
                    f"The text is too long for {cite(one.id)}, which another tool stored: store "
                    f"it without id, with supersedes={cite(one.id)}."
                )
            writer = self.writer(target, encoder.encode_documents if target.dense else None)
            (encoded,) = await writer.encode_parts([new])
        kept = await self.history.keep(one) if new != one else KeptVersion()
        if encoded is not None:
            await self.points.rewrite(target, encoded, one)
        await self.points.change_payload(one, edits)
        self.written(one.collection, [encoded_text(new)] if encoded else [])
        return Stored(one.collection, str(one.id), (one.id,), updated=True, before=kept)

    async def spans(self, encoder: Encoder, new: NewDocument | Document) -> list[Span]:
        """Split a text into parts that leave room for its title; tokens may be estimated."""
        # One token per two bytes is more than any title needs.
        reserve = len(shortened(new.title).encode()) // 2 + 2 if new.title else 0
        limit = (encoder.token_limit() or FALLBACK_TOKENS) - reserve
        spans = await encoder.split(new.text, limit, int(limit * OVERLAP))
        if spans is None:
            given = new.text, limit, None, int(limit * OVERLAP)
            spans = await asyncio.to_thread(split, *given)
        return spans

    def writer(
        self,
        target: Target,
        encode: Encode | None,
        retries: Sequence[float] = (),
        outcomes: Outcomes[Any] | None = None,
    ) -> Writer:
        """A writer into this collection, with this model."""
        return Writer(
            target, encode, self.bm25, self.points, self.written, retries, outcomes or Outcomes()
        )

    async def put(
        self,
        parts: Sequence[Document],
        before: Document | None,
        *,
        ready: tuple[Target, Encoder] | None = None,
        compared: bool = False,
    ) -> Stored:
        """Encode and write the parts of a text that replaces `before`.

        `compared`: find texts that it nearly repeats. Raises Outdated if `before` has changed.
        """
        name = parts[0].collection
        target, encoder = ready or await self.ready(name)
        if parts[0].expires and not target.expiring:
            await self.points.index_expiry(name)
            self.catalog.forget(name)
        writer = self.writer(target, encoder.encode_documents if target.dense else None)
        kept, found = KeptVersion(), []
        known = before is not None and encoded_text(before) == encoded_text(parts[0])
        if before and target.dense and (known or before.chunks > 1):
            with suppress(QdrantMcpError):
                found = await self.points.with_vectors(target, self.points.part_ids(before))
        if before and not before.revision.same_content(parts[0].revision):
            kept = await self.history.keep(before, parts=[one for one, _ in found])
            kept = replace(kept, file=kept.file and parts[0].file is None)
        job = Replacement(parts=parts, before=before, known=vectors_of(found))
        await writer.replace(job)
        near: tuple[Near, ...] = ()
        if compared and job.head and job.head.dense:
            targets, tokens = await self._choose_compared(target), self.bm25.tokens
            near = await near_memories(
                self.queries, self.points, tokens, parts[0], targets, job.head.dense
            )
        without = target.note if target.dense is None else UNREAD if job.unread else None
        if without and 0 < job.unread < len(parts):
            without = f"{without} in {job.unread} parts"
        self.catalog.count_stored(name, len(parts) - (before.chunks if before else 0))
        if writer.pending:
            self.catalog.forget(name)  # it may have a new index of pending points
            self.pending()
        return Stored(
            collection=name,
            document=str(parts[0].document),
            ids=tuple(str(part.id) for part in parts),
            updated=before is not None,
            pending=writer.pending,
            lacking=encoder.lacking if writer.pending else None,
            without_vector=without,
            near=near,
            before=kept,
            expires=parts[0].expires,
        )

    async def _choose_compared(self, target: Target) -> list[Target]:
        """The collection, and the default ones of the same model."""
        others: Sequence[Target] = ()
        with suppress(QdrantMcpError):
            others = await self.catalog.default_targets()
        model = target.dense and target.dense.model
        others = [
            one
            for one in others
            if one.dense and one.dense.model == model and one.collection != target.collection
        ]
        return [target, *(others if len(others) <= MOST_COMPARED else ())]

    async def _holds(self, one: Document, text: str) -> bool:
        """True if the document with this first part has that text."""
        if one.chunks > len(text):
            return False
        chunks = await self.points.parts(one, 0, one.chunks - 1)
        return (
            bool(chunks)
            and not text[chunks[-1].end or len(text) :].strip()
            and all(chunk.text.strip() == text[chunk.start : chunk.end].strip() for chunk in chunks)
        )

    async def ready(self, collection: str) -> tuple[Target, Encoder]:
        """The collection with its indexes, and its model once it is loaded."""
        target = await self.writable(collection)
        encoder = self.encoders.start_encoder(target.dense.model if target.dense else None)
        if encoder.state == "loading":
            await encoder.ready(LOAD_SECONDS)
        return target, encoder

    async def writable(self, collection: str, *more: str, dry: bool = False) -> Target:
        """The collection, after its missing indexes and those of `more` fields are created.

        `dry`: create none. Raises EngineFailure, RequestError.
        """
        target = await self.catalog.target(collection)
        if target.failed:
            raise EngineFailure(f"{collection!r} cannot be read: {str(target.note).rstrip('.')}.")
        if target.dense is None and target.sparse is None:
            raise RequestError(f"{collection!r} cannot be written to: {target.note}.")
        present = self.catalog.indexes_to_complete(collection)
        if present is not None and not dry:
            await self.points.index(collection, present, *more)
        return target

    async def ensure(self, collection: str, *, create: bool = False) -> bool:
        """Create the collection if it is missing; returns whether it was created.

        Raises RequestError if the name looks misspelled, unless `create` is set.
        """
        if await self.catalog.exists(collection):
            return False
        if not self.catalog.visible(collection):
            raise RequestError(
                f"This server may not use a collection named {collection!r}: choose one that "
                "qdrant-collections lists."
            )
        near = [
            one
            for one in await self.catalog.similar_names(collection)
            if misspelled(one, collection) and not _differ_on_purpose(one, collection)
        ]
        if near and not create and collection != self.default:
            raise RequestError(
                f"There is no collection {collection!r}: make it with create=true "
                f"(command: --create), or store into {near[0]!r}, if that is what was meant."
            )
        self._check_name("name of the collection", collection)
        made = await self.points.create(collection, await self.blueprint(collection))
        self.catalog.forget(collection)
        return made

    def parts(
        self,
        new: NewDocument,
        collection: str,
        document: str,
        before: Document | None,
        spans: Sequence[Span],
    ) -> list[Document]:
        """The parts of a text that replaces `before`."""
        now = self.now()
        given = Document(id="", collection=collection, text="", metadata=new.metadata)
        own = new.created_at or own_date(given)
        said = iso(own) if own else None
        # The caller may give the creation time of a new text.
        written = said if said and before is None else stamp(now)
        created = said or (before and before.created_at)
        whole = Document(
            id="",
            collection=collection,
            text="",
            title=new.title or None,
            source=new.source or None,
            metadata=new.metadata,
            stored_by=new.stored_by,
            tags=new.tags or (),
            created_at=created or iso(now),
            updated_at=written,
            dated=said is not None or (before is not None and before.dated),
            document=document,
            expires=new.expires or None,
        )
        return self.numbered(parts_of(whole, new.text, spans), before)

    def numbered(self, parts: Sequence[Document], before: Document | None) -> list[Document]:
        """The parts with their ids, marked as being written if there are several.

        The mark is removed once all are written and the parts of `before` are deleted.
        """
        several = len(parts) > 1 or (before and (before.chunks > 1 or before.writing))
        writing = int(self.now().timestamp()) if several else None
        try:
            marked = [part._replace(writing=writing) for part in parts]
            return numbered(marked, self.points.identify)
        except UnusableFile as error:
            raise RequestError(f"The text {error}.") from error


def _differ_on_purpose(one: str, other: str) -> bool:
    """True for names that differ only by a number, or by a last part of one letter."""
    numbered = re.findall(r"\d+", one) != re.findall(r"\d+", other)
    return (numbered and NUMBER.sub("", one) == NUMBER.sub("", other)) or (
        LAST_LETTER.sub("", one) == LAST_LETTER.sub("", other)
    )


def check_seen(now: Document | None, seen: str | None) -> None:
    """Raise Outdated if the text's revision is not the one that its caller has seen."""
    if seen is not None and (now is None or str(now.revision) != seen):
        raise Outdated
