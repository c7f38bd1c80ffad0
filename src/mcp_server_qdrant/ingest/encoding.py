"""The texts that the encoders read of a chunk, and their vectors."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date
from itertools import starmap
from typing import Any

from mcp_server_qdrant.core.datatypes import Document, Payload, Sparse
from mcp_server_qdrant.core.models import Dense
from mcp_server_qdrant.core.notation import chain, moment
from mcp_server_qdrant.core.writes import TITLE_FACTOR, StoredPoint
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.embedder import Embedder
from mcp_server_qdrant.qdrant.payload import stored_payload

HEAD = 120
PARTS = 64  # between two reports; a text of no more makes none

Progress = Callable[[int, int], Awaitable[None]]  # parts encoded, of how many


async def silent(done: int, of: int) -> None:
    """Report to nobody."""


def encoded_text(chunk: Document, times: int = 1) -> str:
    """The title and section of a chunk, shortened, and its text.

    A title read several times counts so often in BM25's term frequencies, whose part of a score
    stays below k1 + 1 (Robertson et al. 2004, BM25 of weighted fields).
    """
    if not chunk.heading:
        return chunk.text
    again = f"{shortened(chunk.title)}\n" * (times - 1) if chunk.title else ""
    return f"{again}{shortened(chunk.heading)}\n{chunk.text}"


def shortened(title: str) -> str:
    """The ends of a title in a number of bytes, since a CJK character can be three tokens."""
    size = len(title.encode("utf-8", "ignore"))
    if size > HEAD:
        title = chain(title, HEAD * len(title) // size)
    return title.encode("utf-8", "ignore")[:HEAD].decode("utf-8", "ignore")


async def encoded(encoder: Embedder, texts: Sequence[str], progress: Progress) -> list[Any]:
    """One vector per text. Raises EncoderUnavailable."""
    vectors: list[Any] = []
    for first in range(0, len(texts), PARTS):
        vectors += await encoder.encode_documents(texts[first : first + PARTS])
        if len(texts) > PARTS:
            await progress(len(vectors), len(texts))
    return vectors


async def keywords(bm25: Bm25Encoder, chunks: Iterable[Document]) -> list[Sparse]:
    """One BM25 vector per chunk, made in a thread."""
    texts = [(encoded_text(chunk, TITLE_FACTOR), day_of(chunk)) for chunk in chunks]
    return await asyncio.to_thread(lambda: list(starmap(bm25.encode_document, texts)))


async def stored_points(
    bm25: Bm25Encoder,
    chunks: Sequence[Document],
    dense: Sequence[Dense | None],
    marks: Sequence[Payload],
) -> list[StoredPoint]:
    """The points of chunks, each with its dense vector, and its marks in the payload's `doc`."""
    points = []
    sparse = await keywords(bm25, chunks)
    for chunk, vector, words, mark in zip(chunks, dense, sparse, marks, strict=True):
        payload = stored_payload(chunk)
        payload["doc"] |= mark
        points.append(StoredPoint(str(chunk.id), payload, vector, words))
    return points


def day_of(chunk: Document) -> date | None:
    """The day that a text is of: `metadata.date`, or the `created_at` that came with it.

    That of storing a text is none: everything stored on a day would be found by its name.
    """
    said = [(chunk.metadata or {}).get(key) for key in ("date", "created_at")]
    given = [one for one in said if isinstance(one, str)]
    times = map(moment, [*given, chunk.created_at if chunk.dated else None])
    return next((when.date() for when in times if when), None)
