"""Reproducible random samples of a collection's points, with vectors or texts only.

The engine's own sample cannot be seeded. So the points with the smallest hash of their id are
drawn; adding a point changes at most one point of the sample.
"""

import heapq
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import numpy as np

from mcp_server_qdrant.core.datatypes import DenseLeg, Document, Payload, PointId, Sample, Target
from mcp_server_qdrant.core.notation import document_id
from mcp_server_qdrant.qdrant.engine import Engine, Point
from mcp_server_qdrant.qdrant.filters import exclude_expired
from mcp_server_qdrant.qdrant.legs import vector_of
from mcp_server_qdrant.qdrant.paging import pages
from mcp_server_qdrant.qdrant.payload import DOCUMENT_KEY, VERSION_KEY, document_of, title_of
from mcp_server_qdrant.qdrant.texts import keys_of, paths_of, text_at

READABLE = 200_000  # ids read, in about a second; the first ones of a larger collection
IDS = 2_000
PAGE = 128  # points with vectors per request; the event loop runs in between
TEXTS = 200  # texts per request
MOST_TEXTS = 20_000
LONGEST_TEXT = 4_000  # characters
TITLE = 80
SNIPPET = 160
LONGEST = 1_000  # characters of a text beside a vector
SHOWN = ("title", "name", "tags", "created_at", "metadata", DOCUMENT_KEY, "doc.chunk", VERSION_KEY)
POINT = ("ids", "documents", "titles", "snippets", "texts", "facts")  # columns of `Sample`
FACTS, FACT = 16, 40  # values kept of a payload, and characters of one


class Sampler:
    """Reads random points of collections, and the vectors of given points."""

    def __init__(self, client: Engine, content_fields: Sequence[str]) -> None:
        self._client = client
        self._fields = content_fields

    async def sample(self, target: Target, count: int) -> Sample:
        """`count` points of the target, or all if it has fewer. It must have a dense leg."""
        assert target.dense is not None
        leg, name = target.dense, target.collection
        points: list[tuple[Any, ...]] = []
        vectors, without = [np.zeros((0, leg.size), np.float32)], 0
        shown = self._scroll_arguments(target, leg)
        async with aclosing(sample_pages(self._client, target, count, PAGE, **shown)) as found:
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
        about = dict(zip(POINT, columns, strict=True))
        return Sample(**about, vectors=np.concatenate(vectors), without=without)

    async def texts(self, target: Target) -> AsyncGenerator[list[str]]:
        """Pages of texts with their titles, at most 4,000 characters of each.

        At most 20,000 points of a collection are read.
        """
        fields = paths_of(self._fields, target.collection)
        read, shown = 0, [*keys_of(self._fields, target.collection), "title", "metadata.title"]
        found = sample_pages(self._client, target, MOST_TEXTS, TEXTS, with_payload=shown)
        async with aclosing(found):
            async for records in found:
                yield [text for one in records if (text := _text(one.payload or {}, fields))]
                read += len(records)
                if read >= MOST_TEXTS:
                    return  # it has grown in the meantime

    async def vectors(
        self, target: Target, ids: Sequence[PointId]
    ) -> Mapping[PointId, Sequence[float]]:
        """The dense vectors of these points, by id; a point without one is absent."""
        assert target.dense is not None
        shown = self._scroll_arguments(target, target.dense) | {"with_payload": False}
        records = await self._client.retrieve(target.collection, list(ids), **shown)
        found = [(record.id, vector_of(record, target.dense)) for record in records]
        return {point: vector for point, vector in found if vector is not None}

    def _scroll_arguments(self, target: Target, leg: DenseLeg) -> dict[str, Any]:
        """The arguments that ask for a point's vectors and what is shown of its payload."""
        return {
            "with_payload": [*keys_of(self._fields, target.collection), *SHOWN],
            "with_vectors": [leg.vector] if leg.vector else True,
        }


def _text(payload: Payload, fields: Sequence[str]) -> str:
    title, found = title_of(payload), text_at(payload, fields)
    text = found[1] if found else ""
    return (f"{title}\n{text}" if title else text)[:LONGEST_TEXT]


async def sample_pages(
    client: Engine, target: Target, count: int, size: int, **shown: Any
) -> AsyncGenerator[list[Point]]:
    """`count` points of the target in pages of `size`, or all if it has fewer.

    `shown` says what of them, as `scroll` takes it. Texts that have expired are left out.
    """
    name = target.collection
    live = exclude_expired(None, datetime.now(UTC)) if target.expiring else None
    if target.points <= count:
        async for records in pages(client, name, size, live, **shown):
            yield records
        return
    ids: list[PointId] = []
    async for page in pages(client, name, IDS, live, with_payload=False):
        ids += [record.id for record in page]
        if len(ids) >= READABLE:
            break
    chosen = heapq.nsmallest(count, ids, key=_hash)
    for start in range(0, len(chosen), size):
        wanted = chosen[start : start + size]
        found = {one.id: one for one in await client.retrieve(name, wanted, **shown)}
        yield [found[point] for point in wanted if point in found]


def _point(document: Document) -> tuple[Any, ...]:
    """The columns of a point: its title (or the start of its text) and snippet on one line each."""
    snippet = " ".join(document.text[: 2 * SNIPPET].split())[:SNIPPET]
    title = " ".join((document.title or "").split())
    text = f"{title}\n{document.text[:LONGEST]}"
    shown = (title or snippet)[:TITLE], snippet, text
    return document.id, document_id(document), *shown, _facts(document)


def _facts(document: Document) -> Mapping[str, Sequence[str]]:
    """The short metadata values by key, and the tags and the day of creation."""
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


def _hash(point: PointId) -> bytes:
    return blake2b(str(point).encode(), digest_size=8).digest()
