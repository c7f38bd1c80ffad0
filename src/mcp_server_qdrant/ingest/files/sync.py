"""Files to collections: look, compare with what is stored, store the new, remove what is gone.

The state is in the collection: every point says which file it is of, with which contents. Ids
follow from collection, document and chunk. So a run that is cut short is taken up by the next one,
on any machine, and two runs at once write the same points.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

from typing_extensions import override

from mcp_server_qdrant.core.datatypes import PointId, Target
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.selection import Selection
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.ingest.files.prepare import Prepared, Preparer
from mcp_server_qdrant.ingest.files.reader import Reader
from mcp_server_qdrant.ingest.files.state import Known, KnownFile, known_files
from mcp_server_qdrant.ingest.files.walk import Found, Problem, Seen, Source, walk_all
from mcp_server_qdrant.ingest.store import FALLBACK_TOKENS, Store
from mcp_server_qdrant.ingest.writer import RETRIES, Encode, Job
from mcp_server_qdrant.qdrant.read.sources import Files

MAX_BYTES = 10_000_000
LOAD_SECONDS, MODEL_SECONDS = 30, 900  # the latter for a download
ADVICE = (
    'If it is another folder, give it a name (--name, or "name" in SYNC_SOURCES); if all of them '
    "are to be removed, run sync with --empty."
)


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Files to store, and where. `mirror`: what is no longer there is removed.

    `empty` allows to remove all that a source has; `create` a collection with a name much like
    another's. A model that is being downloaded is waited for where `patient`; else, and where there
    is none, texts are stored for keywords and get their vectors later.
    """

    sources: tuple[Source, ...]
    collection: str
    selection: Selection = field(default_factory=Selection)
    mirror: bool = False
    dry_run: bool = False
    create: bool = False
    empty: bool = False
    max_bytes: int = MAX_BYTES
    patient: bool = False


@dataclass(slots=True)
class Report:
    """The progress of a run, and in the end its result. `seconds` are counted from its start.

    `size` of `sizes` bytes are done, of the files that are to be read. `pending`: texts were
    written for keywords, and get their vectors later. `notes` are sentences on files that are
    stored; so many secrets in them were `masked`. In a dry run nothing is stored and the lists say
    what would be.
    """

    phase: str = "Looking for files"
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    files: int = 0
    texts: int = 0
    masked: int = 0
    pending: bool = False
    size: float = 0.0
    sizes: int = 0
    started: float = field(default_factory=monotonic)
    seconds: float = 0.0
    known: Known = field(default_factory=Known)

    @property
    def done(self) -> int:
        """The number of files that are dealt with."""
        return len(self.new) + len(self.changed) + self.unchanged + len(self.problems)

    @property
    def share(self) -> float:
        """The share of the work that is done, by the size of the files, 0 to 1."""
        return min(self.size / self.sizes, 1.0) if self.sizes > 0 else 0.0


@dataclass(eq=False)
class Sync:
    """Keeps files and collections in step. `pace` slows a model down."""

    store: Store
    files: Files
    pace: Callable[[Encode], Encode] = lambda encode: encode

    async def run(
        self, request: SyncRequest, report: Report | None = None, known: Known | None = None
    ) -> Report:
        """Run the request, filling `report` on the way. `known` saves reading the state again.

        Raises RequestError where it would do harm or the collection cannot be written to, and
        BackendError where the engine is away: what is done by then stays done.
        """
        report = report or Report()
        seen = await asyncio.to_thread(walk_all, request.sources, request.selection)
        report.files = len(seen.files)
        report.problems += seen.problems
        target = await self._target(request)
        report.known = known or Known(await self._stored(request, target))
        if request.mirror and not request.empty:
            _check_harmless(request, seen, report.known.files)
        run = _Run(self, request, report, seen)
        with closing(run.reader):
            await run.store_files(target)
        if request.mirror:
            await run.remove_the_gone()
        report.known.unreadable = {one.path: one for one in report.problems if one.stamp}
        report.seconds = monotonic() - report.started
        return report

    async def _target(self, request: SyncRequest) -> Target | None:
        """The collection to write to, made where there is none; None in a dry run."""
        name = request.collection
        if not request.dry_run:
            await self.store.ensure(name, create=request.create)
        elif not await self.store.catalog.exists(name):
            return None
        return await self.store.writable(name, dry=request.dry_run)

    async def _stored(self, request: SyncRequest, target: Target | None) -> dict[str, KnownFile]:
        """The files of the sources that are stored; of a source that is a file, only that."""
        if target is None:
            return {}
        points = await self.files.scan(request.collection, {one.name for one in request.sources})
        whole = tuple(f"{source.name}/" for source in request.sources if source.only is None)
        single = {source.only for source in request.sources}
        return {
            path: file
            for path, file in known_files(points).items()
            if path in single or path.startswith(whole)
        }


class _Run:
    """One run, with the files that were found and those that are stored."""

    def __init__(self, sync: Sync, request: SyncRequest, report: Report, seen: Seen) -> None:
        self.store = sync.store
        self.files = sync.files
        self.pace = sync.pace
        self.request = request
        self.report = report
        self.seen = seen
        self.known = report.known.files
        self.owners: dict[str, str] = {}  # document -> its file, as far as files were read
        self.reader = Reader()

    async def store_files(self, target: Target | None) -> None:
        """Store what is new or changed; in a dry run count it."""
        dry = target is None or self.request.dry_run
        model = target.dense.model if target and target.dense else ""
        self.report.phase = "Comparing"
        waiting = self._waiting(model)
        self.report.sizes = sum(found.size for found in waiting)
        encoder = await self._encoder(model) if model and waiting and not dry else None
        preparer = Preparer(
            self.request.collection,
            model,
            self.owners,
            self.request.max_bytes,
            None if dry else (encoder and encoder.token_limit()) or FALLBACK_TOKENS,
            await encoder.tokenizer_json() if encoder else None,
            self.store.points.identify,
            self.reader,
            self.store.mask,
        )
        jobs = self._jobs(preparer, waiting)
        if target is None or dry:
            async for job in jobs:
                job.count()
            return
        encode = self.pace(encoder.encode_documents) if encoder else None
        writer = self.store.writer(target, encode, RETRIES)
        try:
            await writer.run(jobs)
        finally:
            self.report.pending = writer.pending
            self.store.note_pending(writer)

    def _waiting(self, model: str) -> list[Found]:
        """The files that have to be read; the others are counted."""
        waiting = []
        for found in self.seen.files:
            known = self.known.get(found.path)
            bad = self.report.known.unreadable.get(found.path)
            if known and known.has(found.size, found.mtime, model):
                self.report.unchanged += 1
                self.owners.update(dict.fromkeys(known.documents, found.path))
            elif bad and bad.stamp == found.stamp:
                self.report.problems.append(bad)
            else:
                waiting.append(found)
        return waiting

    async def _encoder(self, model: str) -> Encoder:
        """The model of the collection, waited for while it is being loaded."""
        encoder = self.store.encoders.of(model)
        self.report.phase = "Loading the model"
        states = ("loading", "downloading") if self.request.patient else ("loading",)
        for _ in range(MODEL_SECONDS if self.request.patient else LOAD_SECONDS):
            if encoder.state not in states:
                break
            self.report.phase = (encoder.reason or self.report.phase).rstrip(".")
            await encoder.ready(1.0)
        return encoder

    async def _jobs(
        self, preparer: Preparer, waiting: Sequence[Found]
    ) -> AsyncIterator["_FileJob"]:
        """The files that have to be stored; the others are dealt with on the way."""
        self.report.phase = "Reading"
        for found in waiting:
            known = self.known.get(found.path)
            done = await asyncio.to_thread(preparer.prepare, found, known)
            if isinstance(done, Prepared):
                self.report.notes += [(found.path, note) for note in done.notes]
                same_model = known and known.version and known.version[1] == preparer.model
                earlier = list(known.points) if known and same_model else []
                yield _FileJob(parts=done.parts, earlier=earlier, run=self, file=done, old=known)
                continue
            self.report.sizes -= found.size
            if isinstance(done, Problem):
                self.report.problems.append(done)
            elif known:  # contents as stored: only the time is new
                self.report.unchanged += 1
                self.known[found.path] = replace(known, mtime=done.mtime, size=done.size)

    async def remove_the_gone(self) -> None:
        """Remove what the files below the sources no longer hold."""
        self.report.phase = "Removing"
        unusable = {one.path for one in self.report.problems if not one.kept}
        kept = {one.path for one in self.report.problems if one.kept}
        kept |= {found.path for found in self.seen.files} - unusable
        for path in sorted(self.known.keys() - kept):
            if not any(map(path.startswith, self.seen.unseen)):
                self.report.removed.append(path)
                if not self.request.dry_run:
                    await self.drop(path, self.known.pop(path), ())

    async def drop(self, path: str, known: KnownFile, kept: Container[PointId]) -> None:
        """Remove points of a file, but not of a document that another file has by now."""
        points = [
            point
            for point, document in known.points.items()
            if point not in kept and self.owners.get(document) in (None, path)
        ]
        if points:
            await self.files.drop(self.request.collection, points, known.hashes)
            self.store.catalog.count_stored(self.request.collection, -len(points))
            self.store.written(self.request.collection, ())


@dataclass(eq=False, kw_only=True)
class _FileJob(Job):
    """The parts of a file, and what is stored of it."""

    run: _Run
    file: Prepared
    old: KnownFile | None

    @override
    async def wrote(self, count: int) -> None:
        report = self.run.report
        report.phase = "Storing"
        report.texts += count
        report.size += count * self.file.found.size / len(self.parts)

    @override
    async def finished(self) -> None:
        """What the earlier contents of the file had more is removed."""
        path, stored = self.file.found.path, self.file.known
        added = len(stored.points.keys() - (self.old.points.keys() if self.old else ()))
        self.run.store.catalog.count_stored(self.run.request.collection, added)
        if self.old:
            await self.run.drop(path, self.old, stored.points)
        self.run.known[path] = stored
        self.count()

    @override
    def failed(self, reason: str) -> None:
        problem = Problem(self.file.found.path, f"cannot be stored: {reason}", kept=True)
        self.run.report.problems.append(problem)

    def count(self) -> None:
        """Count the file in the report."""
        report = self.run.report
        (report.changed if self.old else report.new).append(self.file.found.path)
        report.masked += self.file.masked


def _check_harmless(request: SyncRequest, seen: Seen, known: Iterable[str]) -> None:
    """Raise RequestError where a mirror would remove all of a source: is it the right folder?

    A folder of one file, that holds another one now, is.
    """
    there = {found.path for found in seen.files}
    for source in request.sources:
        prefix = f"{source.name}/"
        stored = [path for path in known if path.startswith(prefix)]
        looked_at = source.only is None and prefix not in seen.unseen
        replaced = len(stored) == 1 and any(path.startswith(prefix) for path in there)
        if looked_at and stored and not replaced and there.isdisjoint(stored):
            raise RequestError(
                f"None of the {len(stored):,} files of {source.name!r} that are in "
                f"{request.collection!r} is in this folder. {ADVICE}"
            )
