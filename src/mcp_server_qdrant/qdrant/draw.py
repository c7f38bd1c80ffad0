"""The same random points of a collection, with their vectors, every time it is asked.

The engine's own sample cannot be seeded. Here chance lies in the ids: of a collection whose ids
can all be read, those with the smallest hash are drawn, so that a point more changes the sample by
one at most; of a larger one, what follows random ids.
"""

import heapq
import random
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from hashlib import blake2b
from typing import Any

import numpy as np
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import DenseLeg, Document, PointId, Target
from mcp_server_qdrant.core.maps import Drawn
from mcp_server_qdrant.qdrant.edge.plain import Beginnings
from mcp_server_qdrant.qdrant.payload import WRITING_KEY, read

READABLE = 100_000  # points whose ids are all read, in half a second
IDS = 2_000
PAGE = 128  # points with their vectors in one trip; the event loop goes on between them
BLOCK = 16  # neighbours read behind one random id
TITLE = 80
SNIPPET = 160
LONGEST = 1_000  # characters read of a text
SEED = 0
SHOWN = ("title", "name", "metadata.title", "metadata.name", "doc.chunk", WRITING_KEY)


class Drawer:
    """Reads points of collections at random, and the vectors of given ones."""

    def __init__(self, client: AsyncQdrantBase, content_fields: Sequence[str]) -> None:
        self._client = client
        self._fields = tuple(content_fields)
        self._shown = Beginnings.of((*content_fields, *SHOWN), LONGEST)

    async def draw(self, target: Target, count: int) -> Drawn:
        """`count` points of the target, which has a dense leg, or all where it holds no more."""
        assert target.dense is not None
        if target.points <= count:
            pages = self._all(target)
        elif target.points <= READABLE:
            pages = self._chosen(target, await self._ids(target.collection), count)
        else:
            pages = self._scattered(target, count)
        made = _Page(target, self._fields)
        async with aclosing(pages):
            async for records in pages:
                made.add(records, count)
                if made.count == count:
                    break
        return made.drawn()

    async def vectors(
        self, target: Target, ids: Sequence[PointId]
    ) -> Mapping[PointId, Sequence[float]]:
        """The dense vectors of these points, by id; a point without one is absent."""
        assert target.dense is not None
        records = await self._retrieve(target, ids, with_payload=False)
        found = ((record.id, vector_of(record, target.dense)) for record in records)
        return {point: vector for point, vector in found if vector is not None}

    async def _all(self, target: Target) -> AsyncGenerator[list[Any]]:
        offset: Any = None
        while True:
            records, offset = await self._scroll(target, offset, PAGE)
            yield records
            if offset is None:
                return

    async def _chosen(
        self, target: Target, ids: Sequence[PointId], count: int
    ) -> AsyncGenerator[list[Any]]:
        chosen = heapq.nsmallest(count, ids, key=_chance)
        for start in range(0, len(chosen), PAGE):
            wanted = chosen[start : start + PAGE]
            found = {r.id: r for r in await self._retrieve(target, wanted, with_payload=True)}
            yield [found[point] for point in wanted if point in found]

    async def _scattered(self, target: Target, count: int) -> AsyncGenerator[list[Any]]:
        spans = await self._spans(target.collection)
        seen: set[PointId] = set()
        chance = random.Random(SEED)
        for turn in range(2 * -(-count // BLOCK)):
            low, high, spell = spans[turn % len(spans)]
            start = spell(chance.randint(low, high))
            records, _ = await self._scroll(target, start, BLOCK)
            yield [record for record in records if record.id not in seen]
            seen.update(record.id for record in records)
            if len(seen) >= count:
                return

    async def _ids(self, collection: str) -> list[PointId]:
        ids: list[PointId] = []
        offset: Any = None
        while True:
            records, offset = await self._client.scroll(
                collection, limit=IDS, offset=offset, with_payload=False
            )
            found: list[Any] = records
            ids += [record.id for record in found]
            if offset is None or len(ids) > 2 * READABLE:
                return ids

    async def _spans(self, collection: str) -> list[tuple[int, int, Any]]:
        """For numbers and for UUIDs, as far as ids are such: the least, the greatest, the type."""
        spans = []
        for kind, bits in ((_number, 64), (_uuid, 128)):
            least = await self._at(collection, kind(0))
            if least is not None and _is(least, kind):
                low, high = _value(least), 2**bits - 1
                greatest = low
                while greatest < high:
                    middle = (greatest + high + 1) // 2
                    there = await self._at(collection, kind(middle))
                    if there is not None and _is(there, kind):
                        greatest = _value(there)
                    else:
                        high = middle - 1
                spans.append((low, greatest, kind))
        return spans

    async def _at(self, collection: str, offset: PointId) -> PointId | None:
        """The first id from `offset` on, in the engine's order: numbers, then UUIDs."""
        records, _ = await self._client.scroll(
            collection, limit=1, offset=offset, with_payload=False
        )
        found: list[Any] = records
        return found[0].id if found else None

    async def _scroll(self, target: Target, offset: Any, limit: int) -> tuple[list[Any], Any]:
        records, following = await self._client.scroll(
            target.collection,
            limit=limit,
            offset=offset,
            with_payload=self._shown,
            with_vectors=_named(target.dense),
        )
        return list(records), following

    async def _retrieve(
        self, target: Target, ids: Sequence[PointId], *, with_payload: bool
    ) -> list[Any]:
        return list(
            await self._client.retrieve(
                target.collection,
                list(ids),
                with_payload=self._shown if with_payload else False,
                with_vectors=_named(target.dense),
            )
        )


class _Page:
    """What was drawn so far; the vectors kept as arrays, a page at a time."""

    def __init__(self, target: Target, content_fields: Sequence[str]) -> None:
        assert target.dense is not None
        self._target = target
        self._leg = target.dense
        self._fields = content_fields
        self._ids: list[PointId] = []
        self._titles: list[str] = []
        self._snippets: list[str] = []
        self._vectors = [np.zeros((0, target.dense.size), np.float32)]
        self._without = 0

    @property
    def count(self) -> int:
        """How many were kept."""
        return len(self._ids)

    def add(self, records: Sequence[Any], count: int) -> None:
        """Keep those that have a vector, up to `count` in all."""
        vectors = []
        for record in records:
            if self.count == count:
                break
            document = read(self._target.collection, record.id, record.payload, self._fields)
            if document.writing is not None and document.chunk:
                continue  # of a text that is not whole yet
            vector = vector_of(record, self._leg)
            if vector is None:
                self._without += 1
                continue
            vectors.append(vector)
            self._ids.append(record.id)
            title, snippet = _told(document)
            self._titles.append(title)
            self._snippets.append(snippet)
        if vectors:
            self._vectors.append(np.asarray(vectors, np.float32))

    def drawn(self) -> Drawn:
        """All pages as one."""
        return Drawn(
            ids=tuple(self._ids),
            titles=tuple(self._titles),
            snippets=tuple(self._snippets),
            vectors=np.concatenate(self._vectors),
            without=self._without,
        )


def vector_of(record: Any, leg: DenseLeg) -> Sequence[float] | None:
    """A record's vector on the leg; None where it has none of that size."""
    held = record.vector
    if isinstance(held, dict):
        held = held.get(leg.vector)
    if not isinstance(held, list) or len(held) != leg.size:
        return None
    return held


def _named(leg: DenseLeg | None) -> list[str] | bool:
    return [leg.vector] if leg and leg.vector else True


def _told(document: Document) -> tuple[str, str]:
    """A point's title (or how its text begins) and how its text begins, each on one line."""
    text = " ".join(document.text[: 2 * SNIPPET].split())[:SNIPPET]
    title = " ".join((document.title or "").split())
    return (title or text)[:TITLE], text


def _chance(point: PointId) -> bytes:
    return blake2b(str(point).encode(), digest_size=8).digest()


def _number(value: int) -> PointId:
    return value


def _uuid(value: int) -> PointId:
    return str(uuid.UUID(int=value))


def _is(point: PointId, kind: Any) -> bool:
    return isinstance(point, int if kind is _number else str)


def _value(point: PointId) -> int:
    return point if isinstance(point, int) else uuid.UUID(point).int
