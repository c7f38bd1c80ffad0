"""Collections of other tools, and of older models, brought up to date while they are used.

A vector is added to the collection in place, marked as unfinished so that no search uses it yet,
given to the points in batches, and then the mark is taken off. Every step can be repeated: what
was interrupted goes on with the next call. Where a server cannot add a vector to a collection, it
is copied, with the vectors as they are, and an alias takes its name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mcp_server_qdrant.core.datatypes import SPARSE_NAME, Document, Target
from mcp_server_qdrant.core.errors import EngineFailure, EngineTooOld, RequestError
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.ingest.collections.copying import mirror
from mcp_server_qdrant.ingest.collections.fill import PASSES, Encode, Vector, fill
from mcp_server_qdrant.ingest.encoding import encoded_text, keywords
from mcp_server_qdrant.qdrant.write.bulk import Bulk

WORDS = 64  # texts per batch of BM25: searches get in between
MEANINGS = 32  # and of a model


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The result of an upgrade.

    `points` got the vector now, `textless` have no text to make one of. `copied` is why the
    collection was copied; `kept` names the dense vectors that are searched no more, `dropped` those
    that were removed.
    """

    collection: str
    vector: str
    points: int
    textless: int
    copied: str | None = None
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Addition:
    """A vector to add: dense of `size` or sparse, how it is made, what to say of its model."""

    vector: str
    size: int | None
    encode: Encode
    batch: int
    model: Mapping[str, Any] | None = None


@dataclass(eq=False)
class Upgrades:
    """Upgrades of the collections of one engine.

    `progress` is called with a collection, how many of its points are done, and of how many.
    """

    bulk: Bulk
    bm25: Bm25Encoder
    progress: Callable[[str, int, int], None] = lambda *_: None

    async def keywords(self, name: str) -> Upgraded:
        """Give the collection BM25 vectors: then it is searched by words too.

        Raises UnknownCollection, RequestError where it has keyword vectors of another tool.
        """
        await self._mend(name)
        vector = (await self.bulk.shape(name)).keywords
        if vector not in (None, SPARSE_NAME):
            raise RequestError(f"{name!r} has keyword vectors already, named {vector!r}.")
        return await self._add(name, self._keywords())

    async def model(
        self, name: str, encoder: Encoder, metadata: Mapping[str, Any], *, drop: bool = False
    ) -> Upgraded:
        """Give the collection the vectors of another model, and search by them from then on.

        `metadata` is what a collection of that model says of it. The vectors of the old model
        stay, for whoever uses them, unless they are to be dropped.
        """
        await self._mend(name)
        size = await encoder.size()
        present = (await self.bulk.shape(name)).vectors.get(encoder.vector_name)
        if present is not None and present.size != size:
            raise RequestError(
                f"{name!r} has a vector {encoder.vector_name!r} of another size: "
                f"{present.size}, and {encoder.name} makes {size}."
            )
        done = await self._add(name, _meanings(encoder, encoder.vector_name, size, metadata))
        old = [v for v in (await self.bulk.shape(name)).vectors if v != encoder.vector_name]
        if not drop:
            return replace(done, kept=tuple(old))
        for vector in old:
            await self.bulk.take(name, vector)
        return replace(done, dropped=tuple(old))

    async def refill(self, target: Target, encoder_of: Callable[[str], Encoder]) -> None:
        """Give points that were stored meanwhile what an upgrade gave the others."""
        name, shape = target.collection, await self.bulk.shape(target.collection)
        if SPARSE_NAME in shape.sparse:
            await self._fill(name, self._keywords())
        if target.dense is not None and target.dense.vector == shape.added:
            encoder = encoder_of(target.dense.model)
            await self._fill(name, _meanings(encoder, target.dense.vector))

    def _keywords(self) -> _Addition:
        return _Addition(SPARSE_NAME, None, self._words, WORDS)

    async def _words(self, documents: Sequence[Document]) -> Sequence[Vector]:
        return await keywords(self.bm25, documents)

    async def _add(self, name: str, new: _Addition) -> Upgraded:
        shape = await self.bulk.shape(name)
        if new.vector not in shape.plan() or new.vector in shape.filling:
            try:
                await self.bulk.begin(name, new.vector, new.size)
            except EngineTooOld as error:
                return await self._copied(name, new, str(error))
        done, textless = await self._fill(name, new)
        await self.bulk.finish(name, new.vector, new.model)
        return Upgraded(name, new.vector, done, textless)

    async def _fill(self, name: str, new: _Addition) -> tuple[int, int]:
        total = await self.bulk.lack(name, new.vector)
        return await fill(
            self.bulk,
            name,
            new.vector,
            new.encode,
            batch=new.batch,
            progress=partial(self._report, name, total),
        )

    def _report(self, name: str, total: int, done: int) -> None:
        self.progress(name, done, max(total, done))  # there may be more by now

    async def _copied(self, name: str, new: _Addition, why: str) -> Upgraded:
        """The same by a copy. The original is deleted once the copy is complete."""
        current = (await self.bulk.aliases()).get(name, name)
        copy = f"{name}~{_copy_number(current, name) + 1}"
        if copy not in await self.bulk.names():
            shape = await self.bulk.shape(current)
            await self.bulk.make(copy, shape.with_vector(new.vector, new.size))
        points, textless = 0, 0
        for _ in range(PASSES):
            total = await self.bulk.count(current)
            changed = await mirror(self.bulk, current, copy, partial(self._report, copy, total))
            done, textless = await self._fill(copy, new)
            points += done
            if not changed:
                break
        else:
            raise EngineFailure(
                f"{name!r} is written to faster than it can be copied: stop what writes to it, "
                "and upgrade again."
            )
        await self.bulk.finish(copy, new.vector, new.model)
        if current == name:
            await self.bulk.drop(name)  # an alias cannot have the name of a collection
        await self.bulk.lead(name, copy)
        if current != name:
            await self.bulk.drop(current)
        return Upgraded(name, new.vector, points, textless, why)

    async def _mend(self, name: str) -> None:
        """Finish what was interrupted between the end of the original and its alias."""
        names = await self.bulk.names()
        numbers = [number for one in names if (number := _copy_number(one, name))]
        if name not in names and numbers and name not in await self.bulk.aliases():
            await self.bulk.lead(name, f"{name}~{max(numbers)}")


def _meanings(
    encoder: Encoder, vector: str, size: int = 0, model: Mapping[str, Any] | None = None
) -> _Addition:
    async def encode(documents: Sequence[Document]) -> Sequence[Vector]:
        return await encoder.encode_documents([encoded_text(one) for one in documents])

    return _Addition(vector, size, encode, MEANINGS, model)


def _copy_number(copy: str, original: str) -> int:
    """Which copy of the original this is, from 1 on; 0 where it is none."""
    base, _, number = copy.rpartition("~")
    return int(number) if base == original and number.isascii() and number.isdigit() else 0
