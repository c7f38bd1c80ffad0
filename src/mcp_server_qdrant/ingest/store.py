"""The write path of one text: resolve -> split -> encode -> upsert -> drop what it replaces."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol
from weakref import WeakValueDictionary

from mcp_server_qdrant.core.datatypes import (
    Chunk,
    Document,
    NewDocument,
    Payload,
    PointId,
    Sparse,
    Target,
)
from mcp_server_qdrant.core.errors import (
    EncoderUnavailable,
    EngineFailure,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.notation import (
    Identify,
    as_point_id,
    is_part_id,
    iso,
    name_fault,
    point_id,
)
from mcp_server_qdrant.core.writes import Stored, StoredPoint
from mcp_server_qdrant.ingest import fields, parts
from mcp_server_qdrant.ingest.parts import Replacement, numbered
from mcp_server_qdrant.ingest.progress import Progress, encoded, silent

LOAD_SECONDS = 30.0
HEAD = 120
FALLBACK_TOKENS = 128
OVERLAP = 0.15
NUMBER = re.compile(r"\d+")
LAST_LETTER = re.compile(r"(?<=[-_. ])[a-z]$", re.IGNORECASE)


class Encoder(Protocol):
    """What makes the dense vectors of documents."""

    @property
    def state(self) -> str:
        """`loading` while vectors will be there soon, `ready` when they are."""

    async def ready(self, timeout: float) -> bool:
        """Wait for a load under way."""

    async def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text. Raises EncoderUnavailable."""

    def token_limit(self) -> int | None:
        """Tokens that the model reads of a text."""


class Encoders(Protocol):
    """The encoders by model."""

    def of(self, model: str | None) -> Encoder:
        """The encoder of a model, started; None means the default one."""


class Bm25(Protocol):
    """What makes the sparse vectors of documents."""

    def encode_document(self, text: str) -> Sparse:
        """Distinct token ids with their BM25 weights."""


class Collections(Protocol):
    """What there is to write into."""

    async def exists(self, name: str) -> bool:
        """Whether this server may use a collection of this name, and there is one."""

    async def near(self, name: str) -> list[str]:
        """Names that look like it."""

    async def target(self, name: str) -> Target:
        """How it is written and searched."""

    def visible(self, name: str) -> bool:
        """Whether the allow-list lets it be."""

    def grew(self, name: str, points: int) -> None:
        """So many points more are in it."""

    def indexes_of_ours(self, name: str) -> Container[str] | None:
        """What is indexed in a collection that we made; None of any other."""

    def has_document_index(self, name: str) -> bool:
        """Whether the chunks of a document are found fast."""

    def forget(self, name: str) -> None:
        """Look it up anew at its next use."""


class Points(parts.Points, Protocol):
    """The engine's write side."""

    async def create(self, collection: str, blueprint: Any) -> bool:
        """Make it; False where it is there already."""

    async def index(self, collection: str, present: Container[str]) -> None:
        """Make the indexes that a collection of ours lacks."""

    async def expect_pending(self, collection: str) -> None:
        """Index the pending mark, so that it is found again."""

    async def by_id(self, collection: str, ids: Sequence[PointId]) -> list[Document]:
        """The named points."""

    async def parts(self, one: Document, first: int, last: int) -> list[Document]:
        """Parts of the same version, in order."""

    async def delete_points(self, collection: str, ids: Sequence[PointId]) -> None:
        """Remove the named points."""


class Store:
    """Remembers texts. Storing one twice is one memory; storing under a known `id` updates it."""

    def __init__(
        self,
        collections: Collections,
        points: Points,
        encoders: Encoders,
        bm25: Bm25,
        *,
        blueprint: Callable[[str], Awaitable[Any]],
        split: Callable[[Any, str, int, int], Awaitable[list[Chunk]]],
        payload: Callable[[Document], Payload],
        default: str | None,
        pending: Callable[[], None],
        written: Callable[[str, Sequence[str]], None],
        title_factor: int = 1,
        max_metadata: int = fields.MAX_METADATA,
        identify: Identify = point_id,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._collections = collections
        self._points = points
        self._encoders = encoders
        self._bm25 = bm25
        self._blueprint = blueprint
        self._split = split
        self._payload = payload
        self._default = default
        self._pending, self._written = pending, written
        self._title_factor, self._max_metadata = title_factor, max_metadata
        self._identify = identify
        self._replacement = Replacement(points, collections.has_document_index)
        self._writing: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._now = now

    async def store(
        self,
        new: NewDocument,
        collection: str,
        *,
        create: bool = False,
        progress: Progress = silent,
    ) -> Stored:
        """Write one text into one collection, which is made where it is new on purpose.

        Raises RequestError where the name looks like a mistyped one or the collection cannot hold
        what this server writes. Without a model the text is stored for keyword search, marked.
        `progress` is told of long texts.
        """
        fields.check(new, self._max_metadata)
        document, foreign = await self._document(new, collection)
        new, kept = fields.kept(new, foreign)
        async with self.lock(collection, document):
            try:
                done = await self._store(new, collection, document, progress, create=create)
            except UnknownCollection:  # another process deleted it since we looked
                self._collections.forget(collection)
                done = await self._store(new, collection, document, progress, create=create)
            if foreign is None:
                return done
            await self._points.delete_points(collection, [foreign.id])
            self._collections.grew(collection, -1)
            return replace(done, updated=True, kept=(*kept, *done.kept))

    async def _document(self, new: NewDocument, collection: str) -> tuple[str, Document | None]:
        """The document that is written, the caller's id or the content's, and what it replaces.

        A search shows points: the id of one stands for the document that it is a part of, and a
        point of another tool is replaced by the new version.
        """
        if new.id is None:
            return hashlib.sha256(new.text.encode()).hexdigest()[:32], None
        point = as_point_id(new.id)
        if point is not None and await self._collections.exists(collection):
            for known in await self._points.by_id(collection, [point]):
                return (known.document, None) if known.document else (new.id, known)
            if is_part_id(point):
                raise RequestError(
                    f"The text that {new.id} was a part of was replaced or deleted: store under "
                    "the document's own id, or find it again."
                )
        return new.id, None

    def lock(self, collection: str, document: str) -> asyncio.Lock:
        """One writer per document: parts of two versions must not end up side by side."""
        return self._writing.setdefault((collection, document), asyncio.Lock())

    async def _store(
        self,
        new: NewDocument,
        collection: str,
        document: str,
        progress: Progress,
        *,
        create: bool,
    ) -> Stored:
        made = await self.ensure(collection, create=create)
        target = await self._collections.target(collection)
        if target.failed:
            raise EngineFailure(f"{collection!r} cannot be read: {str(target.note).rstrip('.')}.")
        if target.dense is None and target.sparse is None:
            raise RequestError(f"{collection!r} cannot be written to: {target.note}.")
        if (present := self._collections.indexes_of_ours(collection)) is not None:
            await self._points.index(collection, present)
        encoder = self._encoders.of(target.dense.model if target.dense else None)
        if encoder.state == "loading":
            await encoder.ready(LOAD_SECONDS)
        before = await self._points.first(collection, document)
        if before and new.id is None and not await self._holds(before, new.text):
            # Corrected since, under the id that this text gave it: both are kept.
            document = hashlib.sha256(document.encode()).hexdigest()[:32]
            async with self.lock(collection, document):
                return await self._store(new, collection, document, progress, create=create)
        new, kept = fields.kept(new, before)
        limit = (encoder.token_limit() or FALLBACK_TOKENS) - _reserve(new.title)
        pieces = await self._split(encoder, new.text, limit, int(limit * OVERLAP))
        chunks = self._chunks(new, collection, document, before, pieces)
        points, pending = await self._encode(target, chunks, encoder, progress)
        if pending:
            await self._points.expect_pending(collection)
        await self._replacement.write(target, chunks, points, before)
        replaced = before.chunks if before else 0
        self._collections.grew(collection, len(points) - replaced)
        self._written(collection, [encoded_text(chunk) for chunk in chunks])
        if pending:
            self._collections.forget(collection)  # it may have got the index of pending points
            self._pending()
        return Stored(
            collection=collection,
            document=document,
            ids=tuple(point.id for point in points),
            created_collection=made,
            updated=before is not None,
            pending=pending,
            without_vector=target.note if target.dense is None else None,
            kept=kept,
            replaced=replaced,
        )

    async def _holds(self, one: Document, text: str) -> bool:
        """Whether the document that begins with this chunk is that text."""
        chunks = await self._points.parts(one, 0, one.chunks - 1)
        return not text[chunks[-1].end or len(text) :].strip() and all(
            chunk.text.strip() == text[chunk.start : chunk.end].strip() for chunk in chunks
        )

    async def ensure(self, collection: str, *, create: bool = False) -> bool:
        """Make the collection where there is none; whether it was made.

        Raises RequestError where the name looks like a mistyped one, unless `create` insists.
        """
        if await self._collections.exists(collection):
            return False
        if not self._collections.visible(collection):
            raise RequestError(
                f"This server may not use a collection named {collection!r}: choose one that "
                "qdrant-collections lists."
            )
        if fault := name_fault(collection):
            raise RequestError(fault)
        near = [n for n in await self._collections.near(collection) if not siblings(n, collection)]
        if near and not create and collection != self._default:
            raise RequestError(
                f"There is no collection {collection!r}: pass create=true to make it, or store "
                f"into {near[0]!r}, if that is what was meant."
            )
        made = await self._points.create(collection, await self._blueprint(collection))
        self._collections.forget(collection)
        return made

    def _chunks(
        self,
        new: NewDocument,
        collection: str,
        document: str,
        before: Document | None,
        pieces: Sequence[Chunk],
    ) -> list[Document]:
        now = self._now()
        written = iso(now)
        created = iso(new.created_at) if new.created_at else before and before.created_at
        several = len(pieces) > 1 or (before and (before.chunks > 1 or before.writing))
        made = [
            Document(
                id="",
                collection=collection,
                text=piece.text,
                title=new.title or None,
                source=new.source or None,
                metadata=new.metadata,
                tags=new.tags or (),
                created_at=created or written,
                updated_at=written,
                document=document,
                chunk=number,
                chunks=len(pieces),
                start=piece.start,
                end=piece.end,
                writing=int(now.timestamp()) if several else None,
            )
            for number, piece in enumerate(pieces)
        ]
        return numbered(made, self._identify)

    async def _encode(
        self, target: Target, chunks: Sequence[Document], encoder: Encoder, progress: Progress
    ) -> tuple[list[StoredPoint], bool]:
        texts = [encoded_text(chunk) for chunk in chunks]
        dense: Sequence[Sequence[float] | None] = [None] * len(texts)
        pending = False
        if target.dense is not None:
            try:
                dense = await encoded(encoder, texts, progress)
            except EncoderUnavailable:
                if target.dense.vector == "":
                    raise  # an unnamed vector cannot be left out for now
                pending = True
        keywords = [encoded_text(chunk, self._title_factor) for chunk in chunks]
        sparse = await asyncio.to_thread(lambda: list(map(self._bm25.encode_document, keywords)))
        points = []
        for chunk, words, vector in zip(chunks, sparse, dense, strict=True):
            payload = self._payload(chunk)
            if pending:
                payload["doc"]["pending"] = "dense"
            points.append(StoredPoint(str(chunk.id), payload, vector, words))
        return points, pending


def siblings(one: str, other: str) -> bool:
    """Whether two names differ on purpose: by a number, or by a last part of one letter."""
    return any(pattern.sub("", one) == pattern.sub("", other) for pattern in (NUMBER, LAST_LETTER))


def encoded_text(chunk: Document, times: int = 1) -> str:
    """What the encoders read of a chunk: its title and section, shortened, and its text.

    A title read several times counts so often in BM25's term frequencies, whose part of a score
    stays below k1 + 1 (Robertson et al. 2004, BM25 of weighted fields).
    """
    if not chunk.heading:
        return chunk.text
    again = f"{shortened(chunk.title)}\n" * (times - 1) if chunk.title else ""
    return f"{again}{shortened(chunk.heading)}\n{chunk.text}"


def shortened(title: str) -> str:
    """What the encoders read of a title. Counted in bytes: a CJK character can be three tokens."""
    return title.encode("utf-8", "ignore")[:HEAD].decode("utf-8", "ignore")


def _reserve(title: str | None) -> int:
    """Tokens kept free for the title: one per two bytes is more than any text needs."""
    return len(shortened(title).encode()) // 2 + 2 if title else 0
