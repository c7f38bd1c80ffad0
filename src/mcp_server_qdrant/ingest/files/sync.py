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

from mcp_server_qdrant.core.datatypes import PointId, Selection, Target
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.writes import StoredPoint
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.ingest.files.prepare import FileJob, Preparer
from mcp_server_qdrant.ingest.files.reader import Reader
from mcp_server_qdrant.ingest.files.state import Known, KnownFile, known_files
from mcp_server_qdrant.ingest.files.walk import Found, Problem, Seen, Source, walk_all
from mcp_server_qdrant.ingest.store import FALLBACK_TOKENS, Store
from mcp_server_qdrant.ingest.writer import RETRIES, Encode, Flow, Items, Writer

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
            await run.store(target)
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
        target = await self.store.writable(name)
        if not request.dry_run:
            await self.store.index(name)
        return target

    async def _stored(self, request: SyncRequest, target: Target | None) -> dict[str, KnownFile]:
        """The files of the sources that are stored; of a source that is a file, only that."""
        if target is None:
            return {}
        sources = {one.name for one in request.sources}
        points = await self.store.points.of_files(request.collection, sources)
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
        self._store = sync.store
        self._pace = sync.pace
        self._request = request
        self._report = report
        self._seen = seen
        self._known = report.known.files
        self._owners: dict[str, str] = {}  # document -> its file, as far as files were read
        self.reader = Reader()

    async def store(self, target: Target | None) -> None:
        """Store what is new or changed."""
        dry = target is None or self._request.dry_run
        model = target.dense.model if target and target.dense else ""
        self._report.phase = "Comparing"
        waiting = self._waiting(model)
        self._report.sizes = sum(found.size for found in waiting)
        encoder = await self._encoder(model) if model and waiting and not dry else None
        limit, tokenizer = (None, None) if dry else await _measures(encoder)
        preparer = Preparer(
            self._request.collection,
            model,
            self._owners,
            self._request.max_bytes,
            limit,
            tokenizer,
            self._store.points.identify,
            self.reader,
            self._store.mask,
        )
        if target is None or dry:
            async for job in self._jobs(preparer, waiting, None):
                self._count(job)
            return
        encode = self._pace(encoder.encode_documents) if encoder else None
        writer = self._store.writer(target, encode, RETRIES)
        jobs = self._jobs(preparer, waiting, writer)
        try:
            await Flow(writer, self._wrote, self._finished, self._failed).run(jobs)
        finally:
            if writer.pending:
                self._report.pending = True
                # The collection may have got the index of pending points.
                self._store.catalog.forget(self._request.collection)
                self._store.pending()

    def _waiting(self, model: str) -> list[Found]:
        """The files that have to be read; the others are counted."""
        waiting = []
        for found in self._seen.files:
            known = self._known.get(found.path)
            bad = self._report.known.unreadable.get(found.path)
            if known and known.has(found.size, found.mtime, model):
                self._report.unchanged += 1
                self._owners.update(dict.fromkeys(known.documents, found.path))
            elif bad and bad.stamp == found.stamp:
                self._report.problems.append(bad)
            else:
                waiting.append(found)
        return waiting

    async def _encoder(self, model: str) -> Encoder:
        """The model of the collection, waited for while it is being loaded."""
        encoder = self._store.encoders.of(model)
        self._report.phase = "Loading the model"
        states = ("loading", "downloading") if self._request.patient else ("loading",)
        for _ in range(MODEL_SECONDS if self._request.patient else LOAD_SECONDS):
            if encoder.state not in states:
                break
            self._report.phase = (encoder.reason or self._report.phase).rstrip(".")
            await encoder.ready(1.0)
        return encoder

    async def _jobs(
        self, preparer: Preparer, waiting: Sequence[Found], writer: Writer | None
    ) -> AsyncIterator[FileJob]:
        """The files that have to be stored; the others are dealt with on the way."""
        self._report.phase = "Reading"
        for found in waiting:
            known = self._known.get(found.path)
            done = await asyncio.to_thread(preparer.prepare, found, known)
            if isinstance(done, FileJob):
                self._report.notes += [(found.path, note) for note in done.notes]
                if writer and done.encoded_before:
                    done.vectors = await writer.vectors_of(done.encoded_before)
                yield done
                continue
            self._report.sizes -= found.size
            if isinstance(done, Problem):
                self._report.problems.append(done)
            elif known:  # contents as stored: only the time is new
                self._report.unchanged += 1
                self._known[found.path] = replace(known, mtime=done.mtime, size=done.size)

    async def _wrote(self, items: Items[FileJob], _: Sequence[StoredPoint]) -> None:
        self._report.phase = "Storing"
        self._report.texts += len(items)
        self._report.size += sum(job.found.size / len(job.parts) for job, _ in items)

    async def _finished(self, job: FileJob) -> None:
        """All of a file is stored: what its earlier contents had more is removed."""
        stored = job.known
        added = len(stored.points.keys() - (job.old.points.keys() if job.old else ()))
        self._store.catalog.count_stored(self._request.collection, added)
        if job.old:
            await self._drop(job.found.path, job.old, stored.points)
        self._known[job.found.path] = stored
        self._count(job)

    def _count(self, job: FileJob) -> None:
        (self._report.changed if job.old else self._report.new).append(job.found.path)
        self._report.masked += job.masked

    def _failed(self, job: FileJob, reason: str) -> None:
        reason = f"cannot be stored: {reason}"
        self._report.problems.append(Problem(job.found.path, reason, kept=True))

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
            if point not in kept and self._owners.get(document) in (None, path)
        ]
        if points:
            name = self._request.collection
            await self._store.points.delete_of_files(name, points, known.hashes)
            self._store.catalog.count_stored(name, -len(points))
            self._store.written(name, ())


async def _measures(encoder: Encoder | None) -> tuple[int, str | None]:
    """The tokens of a part, and the tokenizer; without a model tokens are guessed."""
    if encoder is None:
        return FALLBACK_TOKENS, None
    return encoder.token_limit() or FALLBACK_TOKENS, await encoder.tokenizer_json()


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
