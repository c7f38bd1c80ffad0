"""The write path of one text: resolve -> split -> encode -> upsert -> drop what it replaces."""

import hashlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from mcp_server_qdrant.datatypes import (
    Chunk,
    Document,
    NewDocument,
    Payload,
    Sparse,
    Stored,
    StoredPoint,
    Target,
)
from mcp_server_qdrant.errors import EncoderUnavailable, EngineFailure, RequestError

NAMESPACE = uuid.UUID("6f1ca6a5-6dd5-5d1b-9f0e-4b1f3cf0a2a7")
LOAD_SECONDS = 30.0
HEAD = 120
FALLBACK_TOKENS = 128
OVERLAP = 0.15
UPSERT = 64


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

    def tokenizer_json(self) -> str | None:
        """The model's tokenizer."""


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

    def forget(self, name: str) -> None:
        """Look it up anew at its next use."""


class Points(Protocol):
    """The engine's write side."""

    async def create(self, collection: str, blueprint: Any) -> bool:
        """Make it; False where it is there already."""

    async def expect_pending(self, collection: str) -> None:
        """Index the pending mark, so that it is found again."""

    async def upsert(self, target: Target, points: Sequence[StoredPoint]) -> None:
        """Write."""

    async def chunks(
        self, collection: str, document: str, first: int = 0, last: int | None = None
    ) -> list[Document]:
        """Chunks of a document."""

    async def delete_chunks(self, collection: str, document: str, first: int) -> None:
        """Remove chunks from `first` on."""


class Store:
    """Remembers texts. Storing one twice is one memory; storing under a known `id` updates it."""

    def __init__(
        self,
        collections: Collections,
        points: Points,
        encoders: Encoders,
        bm25: Bm25,
        *,
        blueprint: Callable[[], Awaitable[Any]],
        split: Callable[..., list[Chunk]],
        payload: Callable[[Document], Payload],
        pending: Callable[[], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._collections = collections
        self._points = points
        self._encoders = encoders
        self._bm25 = bm25
        self._blueprint = blueprint
        self._split = split
        self._payload = payload
        self._pending = pending
        self._now = now

    async def store(self, new: NewDocument, collection: str, *, create: bool = False) -> Stored:
        """Write one text into one collection, which is made where it is new on purpose.

        Raises RequestError where the name looks like a mistyped one or the collection cannot hold
        what this server writes. Without a model the text is stored for keyword search, marked.
        """
        made = await self._ensure(collection, create=create)
        target = await self._collections.target(collection)
        if target.failed:
            raise EngineFailure(target.note)
        if target.dense is None and target.sparse is None:
            raise RequestError(f"{collection!r} cannot be written to: {target.note}.")
        encoder = self._encoders.of(target.dense.model if target.dense else None)
        if encoder.state == "loading":
            await encoder.ready(LOAD_SECONDS)
        document = new.id or hashlib.sha256(new.text.encode()).hexdigest()[:32]
        before = await self._points.chunks(collection, document, 0, 0)
        chunks = self._chunks(new, collection, document, before, encoder)
        points, pending = await self._encode(target, chunks, encoder)
        if pending:
            await self._points.expect_pending(collection)
        for first in range(0, len(points), UPSERT):
            await self._points.upsert(target, points[first : first + UPSERT])
        if before and before[0].chunks > len(points):
            await self._points.delete_chunks(collection, document, len(points))
        self._collections.grew(collection, len(points) - (before[0].chunks if before else 0))
        if pending:
            self._collections.forget(collection)  # it may have got the index of pending points
            self._pending()
        return Stored(
            collection=collection,
            document=document,
            ids=tuple(point.id for point in points),
            created_collection=made,
            updated=bool(before),
            pending=pending,
        )

    async def _ensure(self, collection: str, *, create: bool) -> bool:
        if await self._collections.exists(collection):
            return False
        if not self._collections.visible(collection):
            raise RequestError(
                f"This server may not use a collection named {collection!r}: choose one that "
                "qdrant-collections lists."
            )
        near = await self._collections.near(collection)
        if near and not create:
            raise RequestError(
                f"There is no collection {collection!r}, but there is {near[0]!r}. Store into "
                f"that one, or pass create=true to make {collection!r}."
            )
        made = await self._points.create(collection, await self._blueprint())
        self._collections.forget(collection)
        return made

    def _chunks(
        self,
        new: NewDocument,
        collection: str,
        document: str,
        before: Sequence[Document],
        encoder: Encoder,
    ) -> list[Document]:
        now = _iso(self._now())
        created = before[0].created_at if before else None
        limit = (encoder.token_limit() or FALLBACK_TOKENS) - _reserve(new.title)
        pieces = self._split(
            new.text,
            limit=limit,
            tokenizer_json=encoder.tokenizer_json(),
            overlap=int(limit * OVERLAP),
        )
        return [
            Document(
                id=point_id(collection, document, number),
                collection=collection,
                text=piece.text,
                title=new.title,
                source=new.source,
                metadata=new.metadata,
                tags=new.tags,
                created_at=_iso(new.created_at) if new.created_at else created or now,
                updated_at=now,
                document=document,
                chunk=number,
                chunks=len(pieces),
                start=piece.start,
                end=piece.end,
            )
            for number, piece in enumerate(pieces)
        ]

    async def _encode(
        self, target: Target, chunks: Sequence[Document], encoder: Encoder
    ) -> tuple[list[StoredPoint], bool]:
        texts = [encoded_text(chunk) for chunk in chunks]
        dense: Sequence[Sequence[float] | None] = [None] * len(texts)
        pending = False
        if target.dense is not None:
            try:
                dense = await encoder.encode_documents(texts)
            except EncoderUnavailable:
                if target.dense.vector == "":
                    raise  # an unnamed vector cannot be left out for now
                pending = True
        points = []
        for chunk, text, vector in zip(chunks, texts, dense, strict=True):
            payload = self._payload(chunk)
            if pending:
                payload["doc"]["pending"] = "dense"
            points.append(
                StoredPoint(str(chunk.id), payload, vector, self._bm25.encode_document(text))
            )
        return points, pending


def encoded_text(chunk: Document) -> str:
    """What the encoders read of a chunk: its title, shortened, and its text."""
    return f"{chunk.title[:HEAD]}\n{chunk.text}" if chunk.title else chunk.text


def point_id(collection: str, document: str, chunk: int) -> str:
    """uuid5 of (collection, document id, chunk index): the same text is the same point."""
    return str(uuid.uuid5(NAMESPACE, f"{collection}\x00{document}\x00{chunk}"))


def _reserve(title: str | None) -> int:
    """Tokens kept free for the title: one per two characters is more than English needs."""
    return min(len(title[:HEAD]) // 2 + 2, FALLBACK_TOKENS // 2) if title else 0


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
