"""Documents by id: of a point, with its neighbours, or of a whole document."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace

from mcp_server_qdrant.datatypes import Document
from mcp_server_qdrant.errors import QdrantMcpError, UnknownCollection
from mcp_server_qdrant.qdrant.catalog import Catalog
from mcp_server_qdrant.qdrant.points import Points


class Lookup:
    """Finds documents by the ids that a search returned, or that a caller gave when storing."""

    def __init__(self, catalog: Catalog, points: Points) -> None:
        self._catalog = catalog
        self._points = points

    async def get(
        self, ids: Sequence[str], *, neighbours: int = 0, collection: str | None = None
    ) -> list[Document]:
        """The documents of `ids`, in their order; an id that is nowhere is left out.

        A point id gives that point, widened by `neighbours` chunks on either side; a document id
        gives all its chunks as one text. Without `collection`, all visible ones are looked in.
        """
        names = await self._places(collection)
        answers = await asyncio.gather(*(self._from(name, ids, neighbours) for name in names))
        found = [document for answer in answers for document in answer]
        order = {wanted: place for place, wanted in enumerate(ids)}
        return sorted(found, key=lambda d: order.get(str(d.id), order.get(d.document or "", 0)))

    async def _places(self, collection: str | None) -> Sequence[str]:
        if collection is None:
            return await self._catalog.names()
        if not await self._catalog.exists(collection):
            raise UnknownCollection(collection, await self._catalog.near(collection))
        return [collection]

    async def _from(self, name: str, ids: Sequence[str], neighbours: int) -> list[Document]:
        """What one collection has of `ids`. One that cannot be read has nothing."""
        try:
            points = [point for wanted in ids if (point := as_point_id(wanted)) is not None]
            found = await self._points.by_id(name, points) if points else []
            if neighbours:
                found = [await self._widened(document, neighbours) for document in found]
            known = {str(document.id) for document in found}
            for wanted in ids:
                if wanted not in known:
                    chunks = await self._points.chunks(name, wanted)
                    found += [joined(chunks, chunks[0])] if chunks else []
        except QdrantMcpError:
            return []
        return found

    async def _widened(self, document: Document, neighbours: int) -> Document:
        if document.document is None or document.chunks == 1:
            return document
        chunks = await self._points.chunks(
            document.collection,
            document.document,
            max(document.chunk - neighbours, 0),
            document.chunk + neighbours,
        )
        return joined(chunks, document) if chunks else document


def as_point_id(text: str) -> str | int | None:
    """Qdrant's id behind a caller's: an unsigned integer or a UUID; None where it is neither."""
    if text.isascii() and text.isdigit() and int(text) < 2**64:
        return int(text)
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


def joined(chunks: Sequence[Document], like: Document) -> Document:
    """Consecutive chunks as one text, what they share given once; the rest is `like`'s."""
    text, end = chunks[0].text, chunks[0].end or len(chunks[0].text)
    for chunk in chunks[1:]:
        start = chunk.start if chunk.start is not None else end
        if start > end:
            text += "\n\n" if start - end > 1 else " "
        text += chunk.text[max(end - start, 0) :]
        end = max(end, chunk.end or start + len(chunk.text))
    return replace(like, text=text, start=chunks[0].start, end=end)
