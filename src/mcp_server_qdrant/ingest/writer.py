"""Encodes parts of texts and writes them as points in batches: one text, or many files.

The first part has the same id in every version of a text and is written last. This commits the new
version: all readers see the old text or the new one.
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
RETRIES = (1.0, 4.0, 15.0)  # backoff in seconds while the engine is unavailable
UNFINDABLE = (
    "The model does not know the characters of this text, and the collection has no keywords: "
    "nothing would find it. Store it in another collection."
)
AWAY = EngineTimeout, EngineUnavailable

Encode = Callable[[Sequence[str]], Awaitable[Sequence[Dense]]]  # raises EncoderUnavailable


@dataclass(eq=False, kw_only=True)
class Job:
    """The parts of one text or of a file, which are stored together.

    Unchanged parts reuse the vectors of the `earlier` points, or those `known` (encoder input ->
    vector). The writer sets `head`, the first part of the present text, and `unread`, the number of
    parts that the model cannot read.
    """

    parts: Sequence[Document]
    earlier: Sequence[PointId] = ()
    known: Mapping[str, Dense] = field(default_factory=dict)
    head: Encoded | None = None
    unread: int = 0


@dataclass(eq=False, kw_only=True)
class Replacement(Job):
    """One text that replaces `before` (a first part), if that has not changed.

    After the commit the writer sets `now`, the first part that is stored, and `orphans`, parts of
    the replaced version; and `read`.
    """

    before: Document | None
    read: bool = False
    now: Document | None = None
    orphans: Sequence[Document] = ()


J = TypeVar("J", bound=Job)


class Outcomes(Generic[J]):
    """Callbacks of a writer; by default only a failed job matters: it raises RequestError."""

    async def replacing(self, heads: Sequence[Document]) -> None:
        """Called before first parts are written."""

    def wrote(self, job: J, count: int) -> None:
        """Called with the number of parts of a job that were just written."""

    async def stored(self, job: J) -> None:
        """Called when all parts of a job are written, before their marks are removed."""

    def failed(self, job: J, reason: str) -> None:  # noqa: ARG002
        """Called if a part of the job cannot be written."""
        raise RequestError(reason)


async def try_model(encode: Encode) -> None:
    """Raise EncoderUnavailable if the model fails on an ordinary text."""
    await encode(["Is it this text, or every one?"])


@dataclass(eq=False)
class Writer:
    """Encodes and writes parts in one collection.

    `encode` makes dense vectors; None if the collection has none, or once the model is unavailable:
    then points are marked as `pending` and get them later. `written` is called with the collection
    and the encoder inputs of each batch. `retries` is the backoff for an unavailable engine.
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

        Raises what stops everything, such as an unavailable engine or a full disk.
        """
        turns = asyncio.Semaphore(WORKERS)
        try:
            async with asyncio.TaskGroup() as group:
                async for some in _batch(jobs):
                    await turns.acquire()
                    task = group.create_task(self._store_some(some))
                    task.add_done_callback(lambda _: turns.release())
        except BaseExceptionGroup as errors:
            ours, others = errors.split(QdrantMcpError)
            if ours is None or others is not None:
                raise
            raise ours.exceptions[0] from errors

    async def _store_some(self, jobs: Sequence[Job]) -> None:
        """Store jobs together; if that fails, one by one, to find the one at fault."""
        try:
            with contained(lambda fault: UnusableFile(f"an unexpected {fault}")):
                await self.store(jobs)
        except UnknownCollection:
            raise
        except (EncoderUnavailable, RequestError) as error:
            if isinstance(error, EncoderUnavailable) and await self._lost_model():
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

    async def _lost_model(self) -> bool:
        """True if the model fails on any text; from then on texts are stored without vectors."""
        try:
            if self.encode is not None:
                await try_model(self.encode)
        except EncoderUnavailable as error:
            await self.continue_without_model(error)
        return self.pending

    async def continue_without_model(self, error: EncoderUnavailable) -> None:
        """Store the rest for keyword search, marked as pending.

        Raises the error if the vector has no name: such a vector cannot be omitted.
        """
        if self.target.dense is not None and self.target.dense.vector == "":
            raise error
        await self.points.index_pending(self.target.collection)
        self.encode, self.pending = None, True

    async def replace(self, job: Replacement) -> None:
        """Store one text, without a model if need be, and delete what it replaced.

        Raises as `store` does.
        """
        try:
            try:
                await self.store([job])
            except EncoderUnavailable as error:
                await self.continue_without_model(error)
                await self.store([job])
        finally:
            if job.parts[0].writing is not None:
                await asyncio.shield(self._tidy(job))

    async def store(self, jobs: Sequence[Job]) -> None:
        """Encode and write the parts of jobs, the first one of each text last.

        Raises EncoderUnavailable, RequestError for a text that no search could find, and Outdated
        if what a Replacement replaces has changed.
        """
        known: dict[str, Dense] = {}
        if self.encode is not None and (old := [point for job in jobs for point in job.earlier]):
            with contextlib.suppress(QdrantMcpError):  # without them all are encoded
                known = vectors_of(await self.points.with_vectors(self.target, old))
        for job in jobs:
            known |= job.known
        items = [(job, part) for job in jobs for part in job.parts]
        for start in range(0, len(items), BATCH):
            some = items[start : start + BATCH]
            encoded = await self.encode_parts([part for _, part in some], known)
            due = []
            for (job, part), one in zip(some, encoded, strict=True):
                unread = one.dense is not None and not one.dense
                job.unread += unread
                if unread and self.target.written is None and part.chunk == 0:
                    raise RequestError(UNFINDABLE)
                job.head = job.head if part.chunk else one
                if part.chunk + 1 == part.chunks and job.head:
                    due.append((job, job.head))
            await self._upsert([one for one in encoded if one.part.chunk])
            await self._write_heads(due)
            self.written(self.target.collection, [encoded_text(part) for _, part in some])
            for job, count in Counter(job for job, _ in some).items():
                self.outcomes.wrote(job, count)

    async def encode_parts(
        self, parts: Sequence[Document], known: Mapping[str, Dense] = MappingProxyType({})
    ) -> list[Encoded]:
        """The parts with their vectors, reusing those `known`. Raises EncoderUnavailable."""
        dense: Sequence[Dense | None] = [None] * len(parts)
        if self.encode is not None:
            texts = [encoded_text(part) for part in parts]
            new = [text for text in dict.fromkeys(texts) if text not in known]
            made = await self.encode(new) if new else ()
            known = {**known, **dict(zip(new, made, strict=True))}
            dense = [known[text] for text in texts]
        words = await keywords(self.bm25, parts)
        return list(map(Encoded, parts, dense, words))

    async def _write_heads(self, due: Sequence[tuple[Job, Encoded]]) -> None:
        """Write first parts, which commits their texts."""
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
        """Remove the mark of an unfinished write from these points."""
        for start in range(0, len(ids), WRITTEN):
            await self.points.settle(self.target.collection, ids[start : start + WRITTEN])

    async def _commit(self, job: Replacement, head: Encoded) -> None:
        """Write the first part if what it replaces is unchanged, otherwise raise Outdated."""
        further = await self._find_replaced(job)
        await self.points.exchange(self.target, head, job.before)
        await self._read_now(job, further)
        made = self.points.as_stored(head.part).revision
        if job.now is None or job.now.revision.changed_since(made):
            raise Outdated

    async def _find_replaced(self, job: Replacement) -> Sequence[Document]:
        """The further parts that become orphans when the text is replaced."""
        head, before = job.parts[0], job.before
        if before is None:
            return ()
        if before.writing is not None:  # an interrupted write
            return await self.points.settled_parts(head)
        if head.version and before.version == head.version:  # the same parts are written again
            return ()
        return await self.points.settled_parts(head, self.points.part_ids(before, 1))

    async def _read_now(self, job: Replacement, further: Sequence[Document]) -> None:
        now = await self.points.first(job.parts[0].collection, job.parts[0].document or "")
        job.orphans = [one for one in further if now is not None and not one.current(now)]
        job.read, job.now = True, now

    async def _tidy(self, job: Replacement) -> None:
        """Delete the parts that a text replaced, or its own if another version won the race.

        Readers see neither, and the next sweep deletes what is left after an error. Parts that
        another server writes meanwhile stay.
        """
        head, *further = job.parts
        ids = [part.id for part in job.parts]
        with contextlib.suppress(QdrantMcpError):
            if not job.read:
                await self._read_now(job, await self._find_replaced(job))
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
            else:  # a sweep has deleted some
                await self._upsert(await self.encode_parts(further))
                await self._settle(ids[1:])


def vectors_of(found: Iterable[tuple[Document, Dense | None]]) -> dict[str, Dense]:
    """Encoder input -> vector, of parts with vectors."""
    return {encoded_text(part): vector for part, vector in found if vector is not None}


async def _batch(jobs: AsyncIterator[Job]) -> AsyncIterator[Sequence[Job]]:
    """Jobs with at most `BATCH` parts together, or a single larger one."""
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
