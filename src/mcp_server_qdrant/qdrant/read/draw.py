"""The same random points of a collection every time: with their vectors, or their texts alone.

The engine's own sample cannot be seeded. Here chance lies in the ids: those with the smallest hash
are drawn, so that a point more changes the sample by one at most.
"""

import heapq
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from hashlib import blake2b
from typing import Any

import numpy as np

from mcp_server_qdrant.core.datatypes import DenseLeg, Document, Payload, PointId, Target
from mcp_server_qdrant.core.maps import Drawn
from mcp_server_qdrant.core.notation import document_id
from mcp_server_qdrant.qdrant.engine import Engine, Point
from mcp_server_qdrant.qdrant.legs import vector_of
from mcp_server_qdrant.qdrant.paging import pages
from mcp_server_qdrant.qdrant.payload import (
    DOCUMENT_KEY,
    VERSION_KEY,
    document_of,
    title_of,
)

READABLE = 200_000  # ids that are read, in a second; of a larger collection the first
IDS = 2_000
PAGE = 128  # points with their vectors in one trip; the event loop goes on between them
TEXTS = 200  # texts in one
MOST_TEXTS = 20_000
LONGEST_TEXT = 4_000  # characters
TITLE = 80
SNIPPET = 160
LONGEST = 1_000  # characters of a text beside a vector
SHOWN = (
    "title",
    "name",
    "tags",
    "created_at",
    "metadata",
    DOCUMENT_KEY,
    "doc.chunk",
    VERSION_KEY,
)
POINT = ("ids", "documents", "titles", "snippets", "texts", "facts")  # columns of `Drawn`
FACTS, FACT = 16, 40  # values kept of a payload, and characters of one


class Drawer:
    """Reads points of collections at random, and the vectors of given ones."""

    def __init__(self, client: Engine, content_fields: Sequence[str]) -> None:
        self._client = client
        self._fields = tuple(content_fields)
        self._shown = [*content_fields, *SHOWN]

    async def draw(self, target: Target, count: int) -> Drawn:
        """`count` points of the target, which has a dense leg, or all where it holds no more."""
        assert target.dense is not None
        leg, name = target.dense, target.collection
        points: list[tuple[Any, ...]] = []
        vectors, without = [np.zeros((0, leg.size), np.float32)], 0
        async with aclosing(
            at_random(self._client, target, count, PAGE, **self._whole(leg))
        ) as found:
            async for records in found:
                page = []
                for record in records:
                    if (vector := vector_of(record, leg)) is None:
                        without += 1
                    elif len(points) < count:
                        document = document_of(name, record.id, record.payload, self._fields)
                        points.append(_point(document))
                        page.append(vector)
                if page:
                    vectors.append(np.asarray(page, np.float32))
                if len(points) == count:
                    break
        columns = list(zip(*points, strict=True)) or [()] * len(POINT)
        return Drawn(
            **dict(zip(POINT, columns, strict=True)),
            vectors=np.concatenate(vectors),
            without=without,
        )

    async def texts(self, target: Target) -> AsyncGenerator[list[str]]:
        """Pages of texts with their titles, at most 4,000 characters of each.

        All of a collection of at most 20,000 points, and as many of a larger one.
        """
        read, shown = 0, [*self._fields, "title", "metadata.title"]
        found = at_random(self._client, target, MOST_TEXTS, TEXTS, with_payload=shown)
        async with aclosing(found):
            async for records in found:
                yield [text for one in records if (text := self._text(one.payload or {}))]
                read += len(records)
                if read >= MOST_TEXTS:
                    return  # it has grown meanwhile

    def _text(self, payload: Payload) -> str:
        title = title_of(payload)
        text = next((v for k in self._fields if isinstance(v := payload.get(k), str)), "")
        return (f"{title}\n{text}" if title else text)[:LONGEST_TEXT]

    async def vectors(
        self, target: Target, ids: Sequence[PointId]
    ) -> Mapping[PointId, Sequence[float]]:
        """The dense vectors of these points, by id; a point without one is absent."""
        assert target.dense is not None
        shown = self._whole(target.dense) | {"with_payload": False}
        records = await self._client.retrieve(target.collection, list(ids), **shown)
        found = [(record.id, vector_of(record, target.dense)) for record in records]
        return {point: vector for point, vector in found if vector is not None}

    def _whole(self, leg: DenseLeg) -> dict[str, Any]:
        """The arguments that ask for a point's vectors and what is shown of its payload."""
        return {
            "with_payload": self._shown,
            "with_vectors": [leg.vector] if leg.vector else True,
        }


async def at_random(
    client: Engine, target: Target, count: int, size: int, **shown: Any
) -> AsyncGenerator[list[Point]]:
    """`count` points of the target in pages of `size`, or all where it holds no more.

    `shown` says what of them, as `scroll` takes it.
    """
    name = target.collection
    if target.points <= count:
        async for records in pages(client, name, size, **shown):
            yield records
        return
    ids: list[PointId] = []
    async for page in pages(client, name, IDS, with_payload=False):
        ids += [record.id for record in page]
        if len(ids) >= READABLE:
            break
    chosen = heapq.nsmallest(count, ids, key=_chance)
    for start in range(0, len(chosen), size):
        wanted = chosen[start : start + size]
        found = {one.id: one for one in await client.retrieve(name, wanted, **shown)}
        yield [found[point] for point in wanted if point in found]


def _point(document: Document) -> tuple[Any, ...]:
    """What is shown of a point: title (or how its text begins) and snippet are one line each."""
    snippet = " ".join(document.text[: 2 * SNIPPET].split())[:SNIPPET]
    title = " ".join((document.title or "").split())
    text = f"{title}\n{document.text[:LONGEST]}"
    shown = (title or snippet)[:TITLE], snippet, text
    return document.id, document_id(document), *shown, _facts(document)


def _facts(document: Document) -> Mapping[str, Sequence[str]]:
    """The short values of a payload by their key; tags and the day are of their own."""
    found: dict[str, Sequence[str]] = {}
    for key, value in (document.metadata or {}).items():
        if isinstance(value, (str, bool, int)) and 0 < len(str(value)) <= FACT:
            found[key] = (str(value),)
        if len(found) == FACTS:
            break
    if document.tags:
        found["tags"] = document.tags
    if document.created_at:
        found["created_at"] = (document.created_at[:10],)
    return found


def _chance(point: PointId) -> bytes:
    return blake2b(str(point).encode(), digest_size=8).digest()
