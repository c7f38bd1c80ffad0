"""Parts of texts -> points, encoded and written in batches: one text's, or those of many files.

All parts of a version are written before its first part. That one has the same id in every version,
so writing it replaces the old text by the new one, for every reader, in one step.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from mcp_server_qdrant.core.datatypes import Dense, Document, PointId, Target
from mcp_server_qdrant.core.errors import (
    EncoderUnavailable,
    EngineTimeout,
    EngineUnavailable,
    Outdated,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
    UnusableFile,
    contained,
)
from mcp_server_qdrant.core.tasks import retry
from mcp_server_qdrant.core.writes import Encoded
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.ingest.encoding import encoded_text, keywords
from mcp_server_qdrant.qdrant.write.points import Points

BATCH = 256  # parts that are encoded together
WRITTEN = 128  # parts in one call to the engine
WORKERS = 3  # one encodes, one writes, one has its texts ready
RETRIES = (1.0, 4.0, 15.0)  # seconds before an engine that is away is asked again
UNFINDABLE = (
    "The model does not know the characters of this text, and the collection has no keywords: "
    "nothing would find it. Store it in another collection."
)
AWAY = EngineTimeout, EngineUnavailable

Encode = Callable[[Sequence[str]], Awaitable[Sequence[Dense]]]  # raises EncoderUnavailable


@dataclass(eq=False, kw_only=True)
class Job:
    """The parts of texts that are stored together: one text, or those of a file.

    Unchanged parts take their vectors from the `earlier` points, or from `known`, by what the
    encoder reads. The writer sets `head`, the first part of the text that is being written, and
    `unread`, the number of parts that the model cannot read.
    """

    parts: Sequence[Document]
    earlier: Sequence[PointId] = ()
    known: Mapping[str, Dense] = field(default_factory=dict)
    head: Encoded | None = None
    unread: int = 0


@dataclass(eq=False, kw_only=True)
class Replacement(Job):
    """One text that is stored in the place of `before` (its first part), if that is unchanged.

    Once it has `read` them the writer sets `now`, the first part that is there after the commit,
    and `orphans`, parts of the replaced version.
    """

    before: Document | None
    read: bool = False
    now: Document | None = None
    orphans: Sequence[Document] = ()


J = TypeVar("J", bound=Job)


class Outcomes(Generic[J]):
    """What a writer tells of many jobs; by default a job that fails raises RequestError."""

    async def replacing(self, heads: Sequence[Document]) -> None:
        """These first parts are about to be written in the place of whatever is there."""

    def wrote(self, job: J, count: int) -> None:
        """So many parts of the job were written just now."""

    async def stored(self, job: J) -> None:
        """All parts of the job are written, and marked until this returns."""

    def failed(self, job: J, reason: str) -> None:  # noqa: ARG002
        """A part of the job cannot be written."""
        raise RequestError(reason)


async def try_model(encode: Encode) -> None:
    """Raise EncoderUnavailable where a model that failed on some texts fails on any."""
    await encode(["Is it this text, or every one?"])


@dataclass(eq=False)
class Writer:
    """Encodes and writes parts in one collection.

    `encode` makes dense vectors; None where the collection has none, or where they are `pending`:
    once there is no model, points are marked to get them later. `written` is called with the
    collection and what the encoders read of each batch. An engine that is away is asked again
    after each of the `retries`.
    """

    target: Target
    encode: Encode | None
    bm25: Bm25Encoder
    points: Points
    written: Callable[[str, Sequence[str]], None]
    retries: Sequence[float] = ()
    outcomes: Outcomes[Any] = field(default_factory=Outcomes)
    pending: bool = False

    async def run(self, jobs: AsyncIterator[Job]) -> None:
        """Store many jobs, reading, encoding and writing at the same time.

        Raises what stops everything: no engine, a full disk.
        """
        turns = asyncio.Semaphore(WORKERS)

        async def in_turn(some: Sequence[Job]) -> None:
            await self._store_some(some)
            turns.release()

        try:
            async with asyncio.TaskGroup() as group:
                async for some in _together(jobs):
                    await turns.acquire()
                    group.create_task(in_turn(some))
        except BaseExceptionGroup as errors:
            ours, others = errors.split(QdrantMcpError)
            if ours is None or others is not None:
                raise
            raise ours.exceptions[0] from errors

    async def _store_some(self, jobs: Sequence[Job]) -> None:
        """Store jobs together; where that is refused, one by one, to find the one at fault."""
        try:
            with contained(lambda fault: UnusableFile(f"an unexpected {fault}")):
                await self.store(jobs)
        except UnknownCollection:
            raise
        except (EncoderUnavailable, RequestError) as error:
            if isinstance(error, EncoderUnavailable) and await self._modelless():
                await self._store_some(jobs)
            elif len(jobs) == 1:
                self.outcomes.failed(jobs[0], str(error))
            else:
                for job in jobs:
                    await self._store_some([job])
            return
        for job in jobs:
            await self.outcomes.stored(job)
        parts = [part for job in jobs for part in job.parts]
        await self._settle([part.id for part in parts if part.writing is not None])

    async def _modelless(self) -> bool:
        """Whether the model fails on any text; then texts are stored for keyword search."""
        if self.encode is not None:
            try:
                await try_model(self.encode)
            except EncoderUnavailable as error:
                await self.do_without(error)
        return self.pending

    async def do_without(self, error: EncoderUnavailable) -> None:
        """Go on without a model: what is left is stored for keywords, marked.

        Raises the error where the vector has no name: it cannot be left out for now.
        """
        if self.target.dense is not None and self.target.dense.vector == "":
            raise error
        await self.points.expect_pending(self.target.collection)
        self.encode, self.pending = None, True

    async def replace(self, job: Replacement) -> None:
        """Store one text, for keywords where there is no model, and remove what it replaced.

        Raises as `store` does.
        """
        try:
            try:
                await self.store([job])
            except EncoderUnavailable as error:
                await self.do_without(error)
                await self.store([job])
        finally:
            if job.parts[0].writing is not None:
                await asyncio.shield(self._tidy(job))

    async def store(self, jobs: Sequence[Job]) -> None:
        """Encode and write the parts of jobs, the first one of each text after all its others.

        Raises EncoderUnavailable, RequestError for a text that nothing could find, and Outdated
        where a Replacement came too late.
        """
        known = await self._vectors([point for job in jobs for point in job.earlier])
        for job in jobs:
            known |= job.known
        items = [(job, part) for job in jobs for part in job.parts]
        for start in range(0, len(items), BATCH):
            some = items[start : start + BATCH]
            encoded = await self.encoded([part for _, part in some], known)
            for (job, part), one in zip(some, encoded, strict=True):
                if one.dense is not None and not one.dense:
                    job.unread += 1
                    if self.target.written is None and part.chunk == 0:
                        raise RequestError(UNFINDABLE)
            await self._upsert([one for one in encoded if one.part.chunk])
            due = []
            for (job, part), one in zip(some, encoded, strict=True):
                if part.chunk == 0:
                    job.head = one
                if part.chunk + 1 == part.chunks and job.head:
                    due.append((job, job.head))
            await self._swap(due)
            self.written(self.target.collection, [encoded_text(part) for _, part in some])
            for job, count in Counter(job for job, _ in some).items():
                self.outcomes.wrote(job, count)

    async def _vectors(self, ids: Sequence[PointId]) -> dict[str, Dense]:
        """The vectors of these points, by what the encoder read; none where they cannot be had."""
        if self.encode is not None and ids:
            with contextlib.suppress(QdrantMcpError):
                return vectors_of(await self.points.with_vectors(self.target, ids))
        return {}

    async def encoded(
        self, parts: Sequence[Document], known: Mapping[str, Dense] = MappingProxyType({})
    ) -> list[Encoded]:
        """The parts with their vectors, some of which are known. Raises EncoderUnavailable."""
        dense: Sequence[Dense | None] = [None] * len(parts)
        if self.encode is not None:
            texts = [encoded_text(part) for part in parts]
            new = [text for text in dict.fromkeys(texts) if text not in known]
            made = dict(zip(new, await self.encode(new), strict=True)) if new else {}
            dense = [known[text] if text in known else made[text] for text in texts]
        words = await keywords(self.bm25, parts)
        return list(map(Encoded, parts, dense, words))

    async def _swap(self, due: Sequence[tuple[Job, Encoded]]) -> None:
        """Write first parts: this commits their texts."""
        plain = [one for job, one in due if not isinstance(job, Replacement)]
        if plain:
            prepare = partial(self.outcomes.replacing, [one.part for one in plain])
            await retry(prepare, self.retries, AWAY)
            await self._upsert(plain)
        for job, one in due:
            if isinstance(job, Replacement):
                await self._commit(job, one)

    async def _upsert(self, parts: Sequence[Encoded]) -> None:
        for start in range(0, len(parts), WRITTEN):
            some = parts[start : start + WRITTEN]
            await retry(partial(self.points.upsert, self.target, some), self.retries, AWAY)

    async def _settle(self, ids: Sequence[PointId]) -> None:
        """The write of these points is done: take the mark of it off."""
        for start in range(0, len(ids), WRITTEN):
            await self.points.settle(self.target.collection, ids[start : start + WRITTEN])

    async def _commit(self, job: Replacement, head: Encoded) -> None:
        """Write the first part where what it replaces is unchanged. Raises Outdated if it is not.

        The parts that it replaces are read before that, and the first part that is there after it.
        """
        further = await self._replaced(job)
        await self.points.exchange(self.target, head, job.before)
        await self._look(job, further)
        made = self.points.as_read(head.part).revision
        if job.now is None or job.now.revision.changed_since(made):
            raise Outdated

    async def _replaced(self, job: Replacement) -> Sequence[Document]:
        """The further parts that are orphans once the text is replaced."""
        head, before = job.parts[0], job.before
        if before is None:
            return ()
        if before.writing is not None:  # its write was cut short
            return await self.points.settled(head)
        if head.version and before.version == head.version:  # the same parts are written again
            return ()
        return await self.points.settled(head, self.points.part_ids(before, 1))

    async def _look(self, job: Replacement, further: Sequence[Document]) -> None:
        head = job.parts[0]
        now = await self.points.first(head.collection, head.document or "")
        job.orphans = [one for one in further if now is not None and not one.current(now)]
        job.read, job.now = True, now

    async def _tidy(self, job: Replacement) -> None:
        """Remove what one text replaced, or the text itself where it is not the present version.

        No reader sees either; what fails here is left to the next sweep. Another server may
        replace the text meanwhile: parts are removed only as they were read.
        """
        head, *further = job.parts
        ids = [part.id for part in job.parts]
        with contextlib.suppress(QdrantMcpError):
            if not job.read:
                await self._look(job, await self._replaced(job))
            await self.points.delete_seen(job.orphans)
            now = job.now
            if now is not None and now.version == head.version:
                await self._settle(ids)
                if not further or await self.points.is_whole(head, ids[1:]):
                    return
                now = await self.points.first(head.collection, head.document or "")
            if now is None or now.version != head.version:
                settled = [part._replace(writing=None) for part in further]
                await self.points.delete_seen([*further, *settled])
            else:  # a sweep took some for orphans
                await self._upsert(await self.encoded(further))
                await self._settle(ids[1:])


def vectors_of(found: Iterable[tuple[Document, Dense | None]]) -> dict[str, Dense]:
    """The vectors of parts, by what the encoder read."""
    return {encoded_text(part): vector for part, vector in found if vector is not None}


async def _together(jobs: AsyncIterator[Job]) -> AsyncIterator[Sequence[Job]]:
    """Jobs with no more parts than are encoded together, or one that has more."""
    some: list[Job] = []
    parts = 0
    async for job in jobs:
        if some and parts + len(job.parts) > BATCH:
            yield some
            some, parts = [], 0
        some.append(job)
        parts += len(job.parts)
    if some:
        yield some
