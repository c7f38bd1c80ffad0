"""Files to collections: look, compare with what is stored, store the new, remove what is gone.

The state is in the collection: every point says which file it is of, with which contents. Ids
follow from collection, document and chunk. So a run that is cut short is taken up by the next one,
on any machine, and two runs at once write the same points.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Container,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Protocol

from mcp_server_qdrant.core.datatypes import Chunk, Document, Payload, PointId, Target
from mcp_server_qdrant.core.errors import EncoderUnavailable, EngineFailure, RequestError
from mcp_server_qdrant.core.notation import Identify, point_id
from mcp_server_qdrant.ingest.fields import MAX_METADATA
from mcp_server_qdrant.ingest.files import flow, walk
from mcp_server_qdrant.ingest.files.prepare import Job, Measures, Preparer, Same
from mcp_server_qdrant.ingest.files.state import KnownFile, Point, known_files
from mcp_server_qdrant.ingest.files.walk import Found, Problem, Seen, Selection, Source, Stamp

MAX_BYTES = 10_000_000
MODEL_SECONDS = 900.0
FALLBACK_TOKENS = 128

Known = dict[str, KnownFile]


class Encoder(flow.Encoder, Protocol):
    """A model, loaded or not."""

    @property
    def reason(self) -> str | None:
        """Why it is not there."""

    async def ready(self, timeout: float) -> bool:
        """Wait for it to load; whether it did."""

    def token_limit(self) -> int | None:
        """Tokens that the model reads of a text."""

    async def tokenizer_json(self) -> str | None:
        """The model's tokenizer."""


class Encoders(Protocol):
    """All models."""

    def of(self, model: str | None) -> Encoder:
        """One of them, started."""


class Collections(Protocol):
    """What there is to write into."""

    async def exists(self, name: str) -> bool:
        """Whether this server may use a collection of this name, and there is one."""

    async def target(self, name: str) -> Target:
        """How it is written."""

    def indexes_of_ours(self, name: str) -> Container[str] | None:
        """What is indexed in a collection that we made; None of any other."""

    def grew(self, name: str, points: int) -> None:
        """So many points more are in it."""


class Points(flow.Writer, Protocol):
    """The engine's write side."""

    async def index(self, collection: str, present: Container[str]) -> None:
        """Make the indexes that a collection of ours lacks."""


class Files(Protocol):
    """What the points say of their files."""

    async def scan(self, collection: str, sources: Iterable[str]) -> Sequence[Point]:
        """Every point of a file of these sources."""

    async def touch(self, collection: str, points: Sequence[PointId], mtime: int) -> None:
        """Note when their file was written last."""

    async def drop(
        self, collection: str, points: Sequence[PointId], contents: Iterable[str]
    ) -> None:
        """Remove them, as far as they have one of these contents."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a sync works with. `ensure(collection, create=)` makes a collection, as storing does.

    `pace` slows a model down; `max_metadata` are bytes of JSON for each text.
    """

    collections: Collections
    points: Points
    files: Files
    encoders: Encoders
    bm25: flow.Bm25
    ensure: Callable[..., Awaitable[bool]]
    split: Callable[..., list[Chunk]]
    count: Callable[[str, str | None], int]
    payload: Callable[[Document], Payload]
    written: Callable[[str, Sequence[str]], None]
    title_factor: int = 1
    pace: Callable[[flow.Encoder], flow.Encoder] = lambda encoder: encoder
    identify: Identify = point_id
    max_metadata: int = MAX_METADATA


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """What is to be stored where. `mirror`: what is no longer there is removed.

    `empty` allows to remove all that a source has; `create` a collection with a name much like
    another's. `dead` files, by path, are left alone while they have this stamp.
    """

    sources: tuple[Source, ...]
    collection: str
    selection: Selection = field(default_factory=Selection)
    mirror: bool = False
    dry_run: bool = False
    create: bool = False
    empty: bool = False
    max_bytes: int = MAX_BYTES
    dead: Mapping[str, Stamp] = field(default_factory=dict)


@dataclass(slots=True)
class Report:
    """How far a run has come, and in the end what it did. `seconds` are counted from its start.

    `size` of `sizes` bytes are done, of the files that are to be read. `notes` are sentences on
    files that are stored. In a dry run nothing is stored and the lists say what would be.
    """

    phase: str = "Looking for files"
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    files: int = 0
    texts: int = 0
    tokens: int = 0
    size: float = 0.0
    sizes: int = 0
    started: float = field(default_factory=monotonic)
    encoding_since: float | None = None
    seconds: float = 0.0
    known: Known = field(default_factory=dict)


class Sync:
    """Keeps files and collections in step."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(
        self, request: SyncRequest, report: Report | None = None, known: Known | None = None
    ) -> Report:
        """Do what is asked, filling `report` on the way. `known` saves reading the state again.

        Raises RequestError where it would do harm or the collection cannot be written to, and
        BackendError where engine or model are away: what is done by then stays done.
        """
        report = report or Report()
        seen = await asyncio.to_thread(walk.walk_all, request.sources, request.selection)
        report.files = len(seen.files)
        report.problems += seen.problems
        target = await self._target(request)
        if known is None:
            known = await self._known(request, target)
        report.known = known
        if request.mirror and not request.empty:
            _check_harmless(request, seen, known)
        run = _Run(self._parts, request, report, seen)
        await run.store(target)
        if request.mirror:
            await run.remove_the_gone()
        report.seconds = monotonic() - report.started
        return report

    async def _target(self, request: SyncRequest) -> Target | None:
        """The collection to write to, made where there is none; None in a dry run."""
        name, collections = request.collection, self._parts.collections
        if not request.dry_run:
            await self._parts.ensure(name, create=request.create)
        elif not await collections.exists(name):
            return None
        target = await collections.target(name)
        if target.failed:
            raise EngineFailure(target.note)
        if target.dense is None and target.sparse is None:
            raise RequestError(f"{name!r} cannot be written to: {target.note}.")
        present = collections.indexes_of_ours(name)
        if present is not None and not request.dry_run:
            await self._parts.points.index(name, present)
        return target

    async def _known(self, request: SyncRequest, target: Target | None) -> Known:
        if target is None:
            return {}
        names = {source.name for source in request.sources}
        points = await self._parts.files.scan(request.collection, names)
        return _in_scope(known_files(points), request.sources)


class _Run:
    """One run, once it is known what there is."""

    def __init__(self, parts: Parts, request: SyncRequest, report: Report, seen: Seen) -> None:
        self._parts = parts
        self._request = request
        self._report = report
        self._seen = seen
        self._known = report.known
        self._preparer: Preparer

    async def store(self, target: Target | None) -> None:
        """Store what is new or changed."""
        model = target.dense.model if target and target.dense else ""
        self._report.phase = "Comparing"
        waiting = []
        owners: dict[str, str] = {}
        for found in self._seen.files:
            known = self._known.get(found.path)
            if known and known.has(found.size, found.mtime, model):
                self._report.unchanged += 1
                owners.update(dict.fromkeys(known.documents, found.path))
            elif self._request.dead.get(found.path) == found.stamp:
                self._report.dead.append(found.path)
            else:
                waiting.append(found)
        self._report.sizes = sum(found.size for found in waiting)
        dry = target is None or self._request.dry_run
        encoder = await self._encoder(model) if model and waiting and not dry else None
        measures = None if dry else await self._measures(encoder)
        name, most = self._request.collection, self._request.max_bytes
        ours = self._parts.identify, self._parts.max_metadata
        self._preparer = Preparer(name, model, measures, owners, most, *ours)
        jobs = self._jobs(waiting)
        if target is None or self._request.dry_run:
            async for job in jobs:
                self._count(job)
        else:
            await self._flow(target, self._parts.pace(encoder) if encoder else None).run(jobs)

    async def _encoder(self, model: str) -> Encoder:
        """The model of the collection, loaded."""
        encoder = self._parts.encoders.of(model)
        self._report.phase = "Loading the model"
        if not await encoder.ready(MODEL_SECONDS):
            raise EncoderUnavailable(encoder.reason or "The embedding model is not there.")
        return encoder

    async def _measures(self, encoder: Encoder | None) -> Measures:
        """How the collection's texts are cut; one without a model takes guessed tokens."""
        limit = encoder.token_limit() if encoder else None
        tokenizer = await encoder.tokenizer_json() if encoder else None
        split, count = self._parts.split, self._parts.count
        return Measures(limit or FALLBACK_TOKENS, tokenizer, count, split)

    async def _jobs(self, waiting: Sequence[Found]) -> AsyncIterator[Job]:
        """The files that have to be stored; the others are dealt with on the way."""
        self._report.phase = "Reading"
        for found in waiting:
            known = self._known.get(found.path)
            done = await asyncio.to_thread(self._preparer.prepare, found, known)
            if isinstance(done, Job):
                self._report.phase = "Storing"
                self._report.encoding_since = self._report.encoding_since or monotonic()
                self._report.notes += [(found.path, note) for note in done.notes]
                yield done
            else:
                self._report.sizes -= found.size
                if isinstance(done, Same):
                    await self._refresh(done)
                else:
                    self._report.problems.append(done)

    async def _refresh(self, same: Same) -> None:
        """Contents as stored: only the time is new, or a run that was cut short left points."""
        self._report.unchanged += 1
        known = self._known[same.found.path]
        version = known.versions[same.contents]
        if self._request.dry_run:
            return
        if version.mtime != same.found.mtime:
            name = self._request.collection
            await self._parts.files.touch(name, list(version.points), same.found.mtime)
        await self._drop(same.found.path, known, version.points)
        await self._parts.points.settle(self._request.collection, version.marked)
        current = replace(version, mtime=same.found.mtime, size=same.found.size, marked=())
        self._known[same.found.path] = KnownFile({same.contents: current})

    def _flow(self, target: Target, encoder: flow.Encoder | None) -> flow.Flow:
        return flow.Flow(
            target,
            encoder,
            self._parts.bm25,
            self._parts.points,
            self._parts.payload,
            title_factor=self._parts.title_factor,
            wrote=self._wrote,
            finished=self._finished,
            failed=self._failed,
        )

    def _wrote(self, items: flow.Items) -> None:
        self._report.texts += len(items)
        for job, piece in items:
            self._report.tokens += piece.tokens
            self._report.size += job.found.size / len(job.pieces)
        self._parts.written(self._request.collection, [piece.text for _, piece in items])

    async def _finished(self, job: Job) -> None:
        """All of a file is stored: what its earlier contents had more is removed."""
        stored = job.known
        added = len(stored.points.keys() - (job.old.points.keys() if job.old else ()))
        self._parts.collections.grew(self._request.collection, added)
        if job.old:
            await self._drop(job.found.path, job.old, stored.points)
        self._known[job.found.path] = stored
        self._count(job)

    def _count(self, job: Job) -> None:
        (self._report.changed if job.old else self._report.new).append(job.found.path)

    def _failed(self, job: Job, reason: str) -> None:
        reason = f"cannot be stored: {reason}"
        self._report.problems.append(
            Problem(job.found.path, reason, kept=True, stamp=job.found.stamp)
        )
        self._known[job.found.path] = job.torn

    async def remove_the_gone(self) -> None:
        """Remove what the files below the sources no longer hold."""
        self._report.phase = "Removing"
        unusable = {one.path for one in self._report.problems if not one.kept}
        kept = {one.path for one in self._report.problems if one.kept}
        kept |= {found.path for found in self._seen.files} - unusable
        for path in sorted(self._known.keys() - kept):
            if not any(map(path.startswith, self._seen.unseen)):
                self._report.removed.append(path)
                if not self._request.dry_run:
                    await self._drop(path, self._known.pop(path), ())

    async def _drop(self, path: str, known: KnownFile, kept: Container[PointId]) -> None:
        """Remove points of a file, but not of a document that another file has by now."""
        points = [
            point
            for point, document in known.points.items()
            if point not in kept and self._preparer.owner(document) in (None, path)
        ]
        if points:
            await self._parts.files.drop(self._request.collection, points, known.hashes)
            self._parts.collections.grew(self._request.collection, -len(points))
            self._parts.written(self._request.collection, ())


def _in_scope(known: Known, sources: Sequence[Source]) -> Known:
    """What is known of the sources; of one that is a file, only of that."""
    whole = tuple(f"{source.name}/" for source in sources if source.only is None)
    single = {source.only for source in sources}
    return {path: file for path, file in known.items() if path in single or path.startswith(whole)}


def _check_harmless(request: SyncRequest, seen: Seen, known: Known) -> None:
    """Raise RequestError where a mirror would remove all of a source: is it the right folder?"""
    there = {found.path for found in seen.files}
    for source in request.sources:
        prefix = f"{source.name}/"
        stored = [path for path in known if path.startswith(prefix)]
        looked_at = source.only is None and prefix not in seen.unseen
        if looked_at and stored and there.isdisjoint(stored):
            raise RequestError(
                f"None of the {len(stored):,} files of {source.name!r} that are in "
                f"{request.collection!r} is in this folder. If it is another folder, give it a "
                "name with --name; if all of them are to be removed, say so with --empty."
            )
