"""The encoder's input for a chunk, and keyword vectors."""

import asyncio
from collections.abc import Iterable
from datetime import date
from itertools import starmap

from mcp_server_qdrant.core.context import to_local
from mcp_server_qdrant.core.datatypes import Document, Sparse
from mcp_server_qdrant.core.dates import own_date
from mcp_server_qdrant.core.notation import shortened_path
from mcp_server_qdrant.core.sentences import RULES
from mcp_server_qdrant.core.writes import TITLE_FACTOR
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder

HEAD = 120  # bytes of a title or section


def encoded_text(chunk: Document, times: int = 1) -> str:
    """The title and section of a chunk, shortened, and its text without rules and underlines.

    `times` repeats the title, which multiplies its BM25 term frequencies; a term's part of a score
    stays below k1 + 1 (Robertson et al. 2004, BM25 with weighted fields).
    """
    text = RULES.sub("", chunk.text)
    if not chunk.heading:
        return text
    again = f"{shortened(chunk.title)}\n" * (times - 1) if chunk.title else ""
    return f"{again}{shortened(chunk.heading)}\n{text}"


def shortened(title: str) -> str:
    """Both ends of a title, in `HEAD` bytes, because a CJK character can be three tokens."""
    size = len(title.encode("utf-8", "ignore"))
    if size > HEAD:
        title = shortened_path(title, HEAD * len(title) // size)
    return title.encode("utf-8", "ignore")[:HEAD].decode("utf-8", "ignore")


async def keywords(bm25: Bm25Encoder, chunks: Iterable[Document]) -> list[Sparse]:
    """One BM25 vector per chunk, computed in a thread."""
    texts = [(encoded_text(chunk, TITLE_FACTOR), day_of(chunk)) for chunk in chunks]
    return await asyncio.to_thread(lambda: list(starmap(bm25.encode_document, texts)))


def day_of(chunk: Document) -> date | None:
    """The date of a text: `metadata.date`, or the `created_at` that came with it.

    The day of storing is not used: searching for it would find everything stored on it.
    """
    when = own_date(chunk)
    return to_local(when).date() if when else None
