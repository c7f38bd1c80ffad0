"""Files to collections: look, compare with what is stored, store the new, remove what is gone.

The state is in the collection: every point says which file it is of, with which contents. Ids
follow from collection, document and chunk. So a run that is cut short is taken up by the next one,
on any machine, and two runs at once write the same points.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import monotonic, time

from typing_extensions import override

from mcp_server_qdrant.core.datatypes import Document, Payload, PointId, Target
from mcp_server_qdrant.core.disk import opened
from mcp_server_qdrant.core.errors import RequestError, Unforeseen, UnusableFile, contained
from mcp_server_qdrant.core.notation import called, iso, moment
from mcp_server_qdrant.encoders.chunk import split, token_count
from mcp_server_qdrant.ingest.attributes import MAX_TITLE, fault
from mcp_server_qdrant.ingest.encoding import shortened
from mcp_server_qdrant.ingest.files.reader import Reader
from mcp_server_qdrant.ingest.files.state import (
    KnownFile,
    Report,
    SyncRequest,
    Version,
    known_files,
)
from mcp_server_qdrant.ingest.files.walk import Found, Problem, Seen, walk_all
from mcp_server_qdrant.ingest.formats.base import Loaded
from mcp_server_qdrant.ingest.formats.load import format_of
from mcp_server_qdrant.ingest.parts import breaks, numbered, parts_of, sections, sections_of
from mcp_server_qdrant.ingest.store import FALLBACK_TOKENS, OVERLAP, Store
from mcp_server_qdrant.ingest.writer import RETRIES, Encode, Job
from mcp_server_qdrant.qdrant.payload import SOURCE_KEY

LOAD_SECONDS, MODEL_SECONDS = 30, 900  # the latter for a download
HASH = 32  # characters of the hash of the contents
LARGE = 20  # times the limit, for a format whose files may be large
MB = 1_000_000
SHOWN = 80  # characters of an id in a note
ADVICE = (
    'If it is another folder, give it a name (--name, or "name" in SYNC_SOURCES); if all of them '
    "are to be removed, run sync with --empty."
)

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Sync:
    """Keeps files and collections in step. `pace` slows a model down."""

    store: Store
    pace: Callable[[Encode], Encode] = lambda encode: encode

    async def run(
        self, request: SyncRequest, report: Report | None = None, before: Report | None = None
    ) -> Report:
        """Run the request, filling `report` on the way.

        `before`, the report of the run before, saves reading the state again.

        Raises RequestError where it would do harm or the collection cannot be written to, and
        BackendError where the engine is away: what is done by then stays done.
        """
        report = report or Report()
        seen = await asyncio.to_thread(walk_all, request.sources, request.selection)
        report.files = len(seen.files)
        report.problems += seen.problems
        target = await self._target(request)
        report.stored = before.stored if before else await self._stored(request, target)
        if request.mirror and not request.empty:
            _check_harmless(request, seen, report.stored)
        run = SyncRun(self, request, report, seen, before.problems if before else ())
        with closing(run.reader):
            await run.store_files(target)
        if request.mirror:
            await run.remove_the_gone()
        report.seconds = monotonic() - report.started
        return report

    async def _target(self, request: SyncRequest) -> Target | None:
        """The collection to write to, made where there is none; None in a dry run."""
        name = request.collection
        if not request.dry_run:
            await self.store.ensure(name, create=request.create)
        elif not await self.store.catalog.exists(name):
            return None
        return await self.store.writable(name, SOURCE_KEY, dry=request.dry_run)

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


class SyncRun:
    """One run, with the files that were found and those that are stored.

    A part has at most `limit` tokens of the `model`, by its `tokenizer` (None: guessed). What could
    not be read `before` is not read again until it changes.
    """

    def __init__(
        self,
        sync: Sync,
        request: SyncRequest,
        report: Report,
        seen: Seen,
        before: Iterable[Problem] = (),
    ) -> None:
        self.store = sync.store
        self.pace = sync.pace
        self.request = request
        self.report = report
        self.seen = seen
        self.known = report.stored
        self.unreadable = {one.path: one for one in before if one.stamp}
        self.owners: dict[str, str] = {}  # document -> its file, as far as files were read
        self.reader = Reader()
        self.model = ""
        self.limit = FALLBACK_TOKENS
        self.tokenizer: str | None = None

    async def store_files(self, target: Target | None) -> None:
        """Store what is new or changed; in a dry run count it."""
        self.model = target.dense.model if target and target.dense else ""
        self.report.phase = "Comparing"
        waiting = self._waiting()
        self.report.sizes = sum(found.size for found in waiting)
        if target is None or self.request.dry_run:
            async for job in self._jobs(waiting):
                job.count()
            return
        encode = self.pace(await self._encoder()) if self.model and waiting else None
        writer = self.store.writer(target, encode, RETRIES)
        writer.before_swap = self.keep_edited
        try:
            await writer.run(self._jobs(waiting))
        finally:
            self.report.pending = writer.pending
            self.store.catalog.forget(self.request.collection)
            if writer.pending:
                self.store.pending()

    def _waiting(self) -> list[Found]:
        """The files that have to be read; the others are counted."""
        waiting = []
        for found in self.seen.files:
            known = self.known.get(found.path)
            bad = self.unreadable.get(found.path)
            if known and known.has(found.size, found.mtime, self.model):
                self.report.unchanged += 1
                self.owners.update(dict.fromkeys(known.documents, found.path))
            elif bad and bad.stamp == found.stamp:
                self.report.problems.append(bad)
            else:
                waiting.append(found)
        return waiting

    async def _encoder(self) -> Encode:
        """The model of the collection, waited for while it is being loaded."""
        encoder = self.store.encoders.of(self.model)
        self.report.phase = "Loading the model"
        states = ("loading", "downloading") if self.request.patient else ("loading",)
        for _ in range(MODEL_SECONDS if self.request.patient else LOAD_SECONDS):
            if encoder.state not in states:
                break
            self.report.phase = (encoder.reason or self.report.phase).rstrip(".")
            await encoder.ready(1.0)
        self.limit = encoder.token_limit() or FALLBACK_TOKENS
        self.tokenizer = await encoder.tokenizer_json()
        return encoder.encode_documents

    async def _jobs(self, waiting: Sequence[Found]) -> AsyncIterator["FileJob"]:
        """The files that have to be stored; the others are dealt with on the way."""
        self.report.phase = "Reading"
        for found in waiting:
            known = self.known.get(found.path)
            done = await asyncio.to_thread(self.job, found, known)
            if isinstance(done, FileJob):
                self.report.notes += [(found.path, note) for note in done.notes]
                yield done
                continue
            self.report.sizes -= found.size
            if isinstance(done, Problem):
                self.report.problems.append(done)
            elif known:  # contents as stored: only the time is new
                self.report.unchanged += 1
                self.known[found.path] = replace(known, mtime=done.mtime, size=done.size)

    def job(self, found: Found, known: KnownFile | None) -> "FileJob | Found | Problem":
        """The parts of a file; the file, where its contents are stored; or why there are none.

        Called in a thread, one file after the other.
        """
        try:
            with contained():
                return self._job(found, known)
        except UnusableFile as error:
            return Problem(found.path, str(error), error.kept, found.stamp)
        except Unforeseen as error:
            cause = error.__cause__
            if isinstance(cause, OSError):  # it is tried again
                # What is not there may also be the program that reads it.
                gone = isinstance(cause, FileNotFoundError) and not found.file.exists()
                return Problem(found.path, f"cannot be read: {cause.strerror}", kept=not gone)
            logger.info("A file could not be read: %s.", error, exc_info=cause)
            return Problem(found.path, f"cannot be read: {error}", kept=True, stamp=found.stamp)

    def _job(self, found: Found, known: KnownFile | None) -> "FileJob | Found":
        found, data = self._read(found)
        version = hashlib.sha256(data).hexdigest()[:HASH], self.model
        if known and known.version == version:
            self.owners.update(dict.fromkeys(known.documents, found.path))
            return found
        loaded = self.reader.load(found.path, data, mask=self.store.mask)
        texts, notes = self._owned(found, loaded.texts)
        file = {
            "source": found.source,
            "path": found.path,
            "hash": version[0],
            "mtime": found.mtime,
            "size": found.size,
            "documents": len(texts),
            "model": version[1],
        }
        cut = [] if self.request.dry_run else texts
        return FileJob(
            parts=[part for text in cut for part in self._parts(file, text, again=bool(known))],
            earlier=known.vectors(self.model) if known else (),
            run=self,
            found=found,
            version=version,
            old=known,
            notes=[*loaded.notes, *notes],
            masked=loaded.masked,
        )

    def _read(self, found: Found) -> tuple[Found, bytes]:
        """The file as it is now, and its bytes. Raises OSError, UnusableFile."""
        most = self.request.max_bytes * (LARGE if format_of(found.path).large else 1)
        with opened(found.file, found.within) as file:
            status = os.fstat(file.fileno())
            # One that is being written, or of the system's, may have more than its size.
            data = file.read(most + 1) if status.st_size <= most else b""
        size = max(len(data), status.st_size)
        if size > most:
            raise UnusableFile(f"is larger than {most / MB:,.0f} MB: it has {size / MB:,.1f}")
        return replace(found, size=status.st_size, mtime=status.st_mtime_ns), data

    def _owned(self, found: Found, texts: Sequence[Loaded]) -> tuple[list[Loaded], list[str]]:
        """The texts that may be stored, their titles cut, and a note on the others.

        Another file may have the id of one, and one may carry too much.
        """
        owned, others = [], []
        for whole in texts:
            text = replace(whole, title=whole.title[:MAX_TITLE])
            if too_much := fault(text):
                if text.id is None:
                    raise UnusableFile(too_much)
                others.append(f"{text.id[:SHOWN]!r} is left out: it {too_much}")
                continue
            owner = self.owners.setdefault(text.id or found.path, found.path)
            if owner == found.path:
                owned.append(text)
            else:
                others.append(f"{text.id!r} is left out: {owner} has that id")
        if not owned:
            raise UnusableFile(f"has no text of its own: {others[0]}")
        return owned, others[:3] + ([f"and {len(others) - 3:,} more ids"] if others[3:] else [])

    def _parts(self, file: Payload, text: Loaded, *, again: bool) -> list[Document]:
        """The parts of a text, with the state of its file."""
        below = {f"{text.title} > {section}" for _, section in sections(text.marks)}
        titles = {shortened(title) for title in (text.title, *below)}
        reserve = 1 + max(token_count(title, self.tokenizer) for title in titles)
        limit = max(self.limit - reserve, self.limit // 2)
        starts, overlap = breaks(text.text, text.marks), int(limit * OVERLAP)
        chunks = split(text.text, limit, self.tokenizer, overlap, starts)
        modified = moment(file["mtime"] / 1e9)
        written = iso(modified) if modified else None
        created = iso(text.created_at) if text.created_at else None
        named = text.metadata is not None and any(
            isinstance(text.metadata.get(key), str) for key in ("source", "url")
        )
        whole = Document(
            id="",
            collection=self.request.collection,
            text="",
            title=text.title or None,
            source=None if named else file["path"],
            metadata=text.metadata,
            tags=text.tags,
            created_at=created,
            # A text with an id is a message or a row: its file's time is that of an export.
            updated_at=created if created and text.id else written,
            dated=text.created_at is not None,
            document=text.id or file["path"],
            writing=int(time()) if again or len(chunks) > 1 else None,
            file=file,
        )
        parts = [
            part._replace(section=section, sections=inside)
            for part, (section, inside) in zip(
                parts_of(whole, text.text, chunks, text.offset),
                sections_of(text.text, text.marks, chunks),
                strict=True,
            )
        ]
        return numbered(parts, self.store.points.identify)

    async def keep_edited(self, new: Sequence[Document]) -> None:
        """Keep what callers wrote under the ids of these texts of files, and say so."""
        paths = {one.id: (one.file or {})["path"] for one in new}
        await self._keep_edited(paths, deleted=False)

    async def _keep_edited(self, paths: Mapping[PointId, str], *, deleted: bool) -> None:
        """Keep those of these first parts of texts, each of a file, that callers wrote."""
        fate = "removed" if deleted else "replaced"
        for old in await self.store.points.by_id(self.request.collection, list(paths)):
            if _edited(old):
                kept = await self.store.history.keep(old, deleted=deleted)
                what = f"{str(old.document)[:SHOWN]!r} was written by a caller and is {fate}"
                how = f"kept {kept.days} days: id {called(kept.id)}" if kept.id else "not kept"
                why = f": {kept.fault}" if kept.fault else ""
                self.report.notes.append((paths[old.id], f"{what}, {how}{why}"))

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
            name, identify = self.request.collection, self.store.points.identify
            heads = {identify(name, one, 0) for one in known.points.values()}.intersection(points)
            await self._keep_edited(dict.fromkeys(sorted(map(str, heads)), path), deleted=True)
            await self.store.points.delete_of_files(name, points, known.hashes)
            self.store.catalog.forget(name)
            self.store.written(name, ())


@dataclass(eq=False, kw_only=True)
class FileJob(Job):
    """A file whose parts are to be stored; so many secrets of its texts are `masked`."""

    run: SyncRun
    found: Found
    version: Version
    old: KnownFile | None
    notes: list[str]
    masked: int

    @property
    def stored(self) -> KnownFile:
        """The state of the file once all is written."""
        points = {part.id: str(part.document) for part in self.parts}
        hashes = {self.version[0]}
        return KnownFile(points, hashes, self.version, self.found.mtime, self.found.size)

    @override
    def wrote(self, count: int) -> None:
        report = self.run.report
        report.phase = "Storing"
        report.texts += count
        report.size += count * self.found.size / len(self.parts)

    @override
    async def finished(self) -> None:
        """What the earlier contents of the file had more is removed."""
        stored = self.stored
        if self.old:
            await self.run.drop(self.found.path, self.old, stored.points)
        self.run.known[self.found.path] = stored
        self.count()

    @override
    def failed(self, reason: str) -> None:
        problem = Problem(self.found.path, f"cannot be stored: {reason}", kept=True)
        self.run.report.problems.append(problem)

    def count(self) -> None:
        """Count the file in the report."""
        report = self.run.report
        (report.changed if self.old else report.new).append(self.found.path)
        report.masked += self.masked


def _edited(old: Document) -> bool:
    """True for a text that a caller stored, or changed since a file was stored."""
    nanoseconds = (old.file or {}).get("mtime")
    when = moment(nanoseconds / 1e9) if isinstance(nanoseconds, int) else None
    return when is None or old.updated_at not in (old.created_at, iso(when))


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
