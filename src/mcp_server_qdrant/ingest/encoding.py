"""The texts that the encoders read of a chunk, and their vectors."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import starmap

from mcp_server_qdrant.core.datatypes import Document, PointId, Sparse
from mcp_server_qdrant.core.dates import own_date
from mcp_server_qdrant.core.notation import chain
from mcp_server_qdrant.core.sentences import RULES
from mcp_server_qdrant.core.writes import TITLE_FACTOR
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.qdrant.write.points import Points

HEAD = 120


def encoded_text(chunk: Document, times: int = 1) -> str:
    """The title and section of a chunk, shortened, and its text without rules and underlines.

    A title read several times counts so often in BM25's term frequencies, whose part of a score
    stays below k1 + 1 (Robertson et al. 2004, BM25 of weighted fields).
    """
    text = RULES.sub("", chunk.text)
    if not chunk.heading:
        return text
    again = f"{shortened(chunk.title)}\n" * (times - 1) if chunk.title else ""
    return f"{again}{shortened(chunk.heading)}\n{text}"


def shortened(title: str) -> str:
    """The ends of a title in a number of bytes, since a CJK character can be three tokens."""
    size = len(title.encode("utf-8", "ignore"))
    if size > HEAD:
        title = chain(title, HEAD * len(title) // size)
    return title.encode("utf-8", "ignore")[:HEAD].decode("utf-8", "ignore")


async def keywords(bm25: Bm25Encoder, chunks: Iterable[Document]) -> list[Sparse]:
    """One BM25 vector per chunk, made in a thread."""
    texts = [(encoded_text(chunk, TITLE_FACTOR), day_of(chunk)) for chunk in chunks]
    return await asyncio.to_thread(lambda: list(starmap(bm25.encode_document, texts)))


def day_of(chunk: Document) -> date | None:
    """The day that a text is of: `metadata.date`, or the `created_at` that came with it.

    The day of storing does not count: by its name everything stored on it would be found.
    """
    when = own_date(chunk)
    return when.date() if when else None


async def still_same(points: Points, before: Sequence[Document]) -> list[PointId]:
    """The points that were not written since: they may get what was made of their texts."""
    if not before:
        return []
    now = await points.by_id(before[0].collection, [one.id for one in before])
    present = {one.id: one for one in now}
    return [one.id for one in before if present.get(one.id) == one]
