"""Upgrades collections of other tools and older models while they are in use.

A vector is added to the collection in place, marked as unfinished so that searches ignore it. The
points get it in batches, and then the mark is removed. All steps can be repeated: the next call
continues an interrupted upgrade.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mcp_server_qdrant.core.datatypes import SPARSE_NAME, Dense, Document, PointId, Sparse
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.ingest.encoding import encoded_text, keywords
from mcp_server_qdrant.ingest.writer import try_model
from mcp_server_qdrant.qdrant.write.bulk import Bulk, unchanged_without

WORDS = 64  # texts per batch of BM25; searches run between batches
MEANINGS = 32  # texts per batch of a model
PASSES = 10  # at most; each fills points written without the vector during the one before

Vector = Sparse | Dense
Encode = Callable[[Sequence[Document]], Awaitable[Sequence[Vector]]]


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The result of an upgrade.

    `points` got the vector now, `textless` have no text for one. `kept` names dense vectors that
    are no longer searched, `dropped` those that were removed.
    """

    collection: str
    vector: str
    points: int
    textless: int
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(eq=False)
class Upgrades:
    """Upgrades the collections of one engine.

    `progress` gets a collection, the number of finished points, and their total.
    """

    bulk: Bulk
    bm25: Bm25Encoder
    progress: Callable[[str, int, int], None] = lambda *_: None

    async def keywords(self, name: str) -> Upgraded:
        """Add BM25 vectors, so that the collection has keyword search.

        Raises UnknownCollection, RequestError if it has keyword vectors of another tool.
        """
        vector = (await self.bulk.shape(name)).keywords
        if vector not in (None, SPARSE_NAME):
            raise RequestError(f"{name!r} has keyword vectors already, named {vector!r}.")
        return await self._add(name, SPARSE_NAME, None, partial(keywords, self.bm25), WORDS)

    async def model(
        self, name: str, encoder: Encoder, metadata: Mapping[str, Any], *, drop: bool = False
    ) -> Upgraded:
        """Add the vectors of another model, and use them for searches from then on.

        `metadata` describes that model in the collection. The vectors of the old model stay for
        other users unless `drop` is set.
        """
        size = await encoder.size()
        await try_model(encoder.encode_documents)  # fail before anything is changed
        present = (await self.bulk.shape(name)).vectors.get(encoder.vector_name)
        if present is not None and present.size != size:
            raise RequestError(
                f"{name!r} has a vector {encoder.vector_name!r} of another size: "
                f"{present.size}, and {encoder.name} makes {size}."
            )

        async def meanings(documents: Sequence[Document]) -> Sequence[Vector]:
            return await encoder.encode_documents([encoded_text(one) for one in documents])

        done = await self._add(name, encoder.vector_name, size, meanings, MEANINGS, metadata)
        old = [v for v in (await self.bulk.shape(name)).vectors if v != encoder.vector_name]
        if not drop:
            return replace(done, kept=tuple(old))
        for vector in old:
            await self.bulk.remove_vector(name, vector)
        return replace(done, dropped=tuple(old))

    async def _add(
        self,
        name: str,
        vector: str,
        size: int | None,
        encode: Encode,
        batch: int,
        metadata: Mapping[str, Any] | None = None,
    ) -> Upgraded:
        """Add and fill a vector, sparse if `size` is None; `metadata` describes its model."""
        shape = await self.bulk.shape(name)
        if vector not in shape.plan() or vector in shape.filling:
            await self.bulk.begin_vector(name, vector, size)
        done, textless = await self._fill(name, vector, encode, batch)
        await self.bulk.finish_vector(name, vector, metadata)
        return Upgraded(name, vector, done, textless)

    async def _fill(self, name: str, vector: str, encode: Encode, batch: int) -> tuple[int, int]:
        """Fill the vector of every point; returns (number of filled points, of those without text).

        Finished points are durable; after an interruption the next call continues with the rest.
        """
        total = await self.bulk.count_without(name, vector)
        done, textless = 0, set[PointId]()
        for _ in range(PASSES):
            before = done
            async for documents in self.bulk.points_without(name, vector, batch):
                texts = [one for one in documents if not one.textless]
                made = await encode(texts) if texts else ()
                found = {one.id: value for one, value in zip(texts, made, strict=True)}
                textless |= {one.id for one in documents if _empty(found.get(one.id))}
                # A point that was replaced while it was encoded is left to the next pass.
                same = await self.bulk.find_unchanged(texts)
                given = {point: found[point] for point in same if point not in textless}
                if given:
                    await self.bulk.write_vector(
                        name, vector, given, unchanged_without(texts, vector)
                    )
                done += len(given)
                self.progress(name, done, max(total, done))  # there may be more by now
            if done == before:
                break
        return done, len(textless)


def _empty(vector: Vector | None) -> bool:
    return not (vector.indices if isinstance(vector, Sparse) else vector)
