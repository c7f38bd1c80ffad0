"""Chunks of many files -> points, reading, encoding and writing at the same time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import monotonic, time
from uuid import uuid4

from mcp_server_qdrant.core.datatypes import Document, Target
from mcp_server_qdrant.core.errors import (
    EncoderUnavailable,
    EngineTimeout,
    EngineUnavailable,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
    UnusableFile,
    contained,
)
from mcp_server_qdrant.core.models import Dense
from mcp_server_qdrant.core.retry import retried
from mcp_server_qdrant.core.writes import StoredPoint
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.ingest.encoding import stored_points
from mcp_server_qdrant.ingest.files.prepare import Job, Piece
from mcp_server_qdrant.qdrant.write.points import Points

WINDOW = 1024  # chunks that are sorted by length together, so that little of a batch is padding
SLICE = 128  # chunks that are written together
STEP, STEP_SECONDS = 8, 1.0  # chunks that are encoded together at first, twice as many if sooner
WORKERS = 3  # one encodes, one writes, one has its texts ready
RETRIES = (1.0, 4.0, 15.0)  # seconds before an engine that is away is asked again

Items = Sequence[tuple[Job, Piece]]
Encode = Callable[[Sequence[str]], Awaitable[Sequence[Dense]]]  # raises EncoderUnavailable


@dataclass(eq=False)
class Flow:
    """Stores the chunks of jobs in one collection.

    `encode` makes dense vectors; None where the collection has none. Once it makes none at all, the
    chunks are stored for keywords, and `pending`: marked, so that they get their vectors later.
    `encoded` is called as vectors are made, or where there are none as chunks are written, `wrote`
    after each write, `finished` once all chunks of a job are written, `failed` where one cannot be.
    """

    target: Target
    encode: Encode | None
    bm25: Bm25Encoder
    points: Points
    encoded: Callable[[Items], None]
    wrote: Callable[[Items], None]
    finished: Callable[[Job], Awaitable[None]]
    failed: Callable[[Job, str], None]
    retries: Sequence[float] = RETRIES
    pending: bool = False
    _step: int = STEP

    async def run(self, jobs: AsyncIterator[Job]) -> None:
        """Store all jobs. Raises what stops everything: no engine, a full disk."""
        queue: asyncio.Queue[Items | None] = asyncio.Queue(WORKERS)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WORKERS):
                    group.create_task(self._work(queue))
                async for items in _slices(jobs):
                    await queue.put(items)
                for _ in range(WORKERS):
                    await queue.put(None)
        except BaseExceptionGroup as errors:
            ours, others = errors.split(QdrantMcpError)
            if ours is None or others is not None:
                raise
            raise ours.exceptions[0] from errors

    async def _work(self, queue: asyncio.Queue[Items | None]) -> None:
        while (items := await queue.get()) is not None:
            await self._store([item for item in items if not item[0].failed])

    async def _store(self, items: Items) -> None:
        """Encode and write; where that is refused, job by job, to find the one at fault."""
        if not items:
            return
        try:
            with contained(lambda fault: UnusableFile(f"an unexpected {fault}")):
                points = await self._points(items)
            await self._write_all(items, points)
        except UnknownCollection:
            raise
        except (EncoderUnavailable, RequestError) as error:
            if isinstance(error, EncoderUnavailable) and await self._modelless():
                await self._store(items)
                return
            jobs = {id(job): job for job, _ in items}
            if len(jobs) > 1:
                for one in jobs.values():
                    await self._store([item for item in items if item[0] is one])
            else:
                self._give_up(items[0][0], error)
            return
        if points[0].dense is None:
            self.encoded(items)
        self.wrote(items)
        await self._finish(items)

    async def _finish(self, items: Items) -> None:
        for job, _ in items:
            job.left -= 1
            if job.left == 0 and not job.failed:
                await self.finished(job)
                if job.old:
                    await self._settle([one for one in job.pieces if not one.chunk.chunk])

    async def _write_all(self, items: Items, points: Sequence[StoredPoint]) -> None:
        """Write the further parts of texts, and the first ones of those whose others are written.

        With its first part a text is there for readers, and replaces what it was before.
        """
        further = [point for (_, one), point in zip(items, points, strict=True) if one.chunk.chunk]
        if further:
            await self._write(further)
        jobs = {id(job): job for job, _ in items}.values()
        for (job, piece), point in zip(items, points, strict=True):
            document = str(piece.chunk.document)
            if piece.chunk.chunk:
                job.further[document].discard(piece.chunk.id)
            else:
                job.firsts[document] = point
        whole = [(job, [one for one in job.firsts if not job.further[one]]) for job in jobs]
        firsts = [job.firsts.pop(document) for job, documents in whole for document in documents]
        if firsts:
            await self._write(firsts)
            for job, documents in whole:
                await self._settle(job.written(documents))

    async def _settle(self, pieces: Sequence[Piece]) -> None:
        ids = [piece.chunk.id for piece in pieces]
        for start in range(0, len(ids), WINDOW):
            await self.points.settle(self.target.collection, ids[start : start + WINDOW])

    async def _modelless(self) -> bool:
        """Whether nothing can be encoded at all: then keywords have to do.

        Raises EncoderUnavailable where the vector has no name: it cannot be left out for now.
        """
        if self.encode is not None:
            try:
                # One that no cache of vectors has.
                await self.encode([f"Is it this text, or every one? {uuid4()}"])
            except EncoderUnavailable:
                if self.target.dense is not None and self.target.dense.vector == "":
                    raise
                await self.points.expect_pending(self.target.collection)
                self.encode, self.pending = None, True
        return self.pending

    def _give_up(self, job: Job, error: QdrantMcpError) -> None:
        if not job.failed:
            job.failed = True
            self.failed(job, str(error))

    async def _points(self, items: Items) -> list[StoredPoint]:
        dense: Sequence[Dense | None] = [None] * len(items)
        mark = {"pending": "dense"} if self.pending else {}
        if self.encode is not None:
            dense = await self._dense(items, self.encode)
        chunks = [_marked(job, piece.chunk) for job, piece in items]
        marks = [{"file": job.state, **mark} for job, _ in items]
        return await stored_points(self.bm25, chunks, dense, marks)

    async def _dense(self, items: Items, encode: Encode) -> Sequence[Dense]:
        """Their vectors, of so many texts at a time that a slow model is seen to go on."""
        vectors: list[Dense] = []
        while some := items[len(vectors) :][: self._step]:
            began = monotonic()
            vectors += await encode([piece.text for _, piece in some])
            self.encoded(some)
            if monotonic() - began < STEP_SECONDS:
                self._step = min(2 * self._step, SLICE)
        return vectors

    async def _write(self, points: Sequence[StoredPoint]) -> None:
        await retried(
            lambda: self.points.upsert(self.target, points),
            self.retries,
            (EngineTimeout, EngineUnavailable),
        )


def _marked(job: Job, chunk: Document) -> Document:
    """The chunk, marked as being written where it is not all of a new text."""
    return chunk._replace(writing=int(time())) if chunk.chunks > 1 or job.old else chunk


async def _slices(jobs: AsyncIterator[Job]) -> AsyncIterator[Items]:
    """The chunks, in slices of texts of like length.

    The first windows are small, so that the encoder need not wait for a large one to be read.
    """
    window: list[tuple[Job, Piece]] = []
    size = SLICE
    async for job in jobs:
        for piece in job.pieces:
            window.append((job, piece))
            if len(window) == size:
                for items in _by_length(window):
                    yield items
                window, size = [], min(2 * size, WINDOW)
    for items in _by_length(window):
        yield items


def _by_length(window: list[tuple[Job, Piece]]) -> list[Items]:
    window.sort(key=lambda item: item[1].tokens)
    return [window[first : first + SLICE] for first in range(0, len(window), SLICE)]
