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
from dataclasses import dataclass, field, replace
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
    """One run of a request, told of in its `report`.

    `before`, the report of the run before, saves reading what it has of the state again, and files
    that could not be read and have not changed. `pace` slows a model down.
    """

    store: Store
    request: SyncRequest
    report: Report = field(default_factory=Report)
    before: Report | None = None
    pace: Callable[[Encode], Encode] | None = None
    model: str = field(default="", init=False)
    # A part has at most so many tokens of the model, by its tokenizer (None: guessed).
    limit: int = field(default=FALLBACK_TOKENS, init=False)
    tokenizer: str | None = field(default=None, init=False)
    reader: Reader = field(default_factory=Reader, init=False)
    owners: dict[str, str] = field(default_factory=dict, init=False)  # documents -> files seen
    touched: list[Found] = field(default_factory=list, init=False)  # with the contents of before

    async def run(self) -> Report:
        """Do it; the report.

        Raises RequestError where it would do harm or the collection cannot be written to, and
        BackendError where the engine is away: what is done by then stays done.
        """
        request, report = self.request, self.report
        seen = await request.look(walk_all, request.sources, request.selection)
        report.files = len(seen.files)
        report.problems += seen.problems
        target = await self._target()
        report.stored = await self._stored(target)
        if request.mirror and not request.empty:
            _check_harmless(request, seen, report.stored)
        with closing(self.reader):
            await self._store_files(seen.files, target)
        for found in () if request.dry_run else self.touched:
            known = report.stored[found.path]
            points, contents = list(known.points), known.hashes
            await self.store.points.file_seen(request.collection, points, contents, found.mtime)
        if request.mirror:
            await self._remove_the_gone(seen)
        report.seconds = monotonic() - report.started
        return report

    async def _target(self) -> Target | None:
        """The collection to write to, made where there is none; None in a dry run."""
        name, dry = self.request.collection, self.request.dry_run
        self.store.catalog.forget(name)  # another process may have deleted it
        if not dry:
            await self.store.ensure(name, create=self.request.create)
        elif not await self.store.catalog.exists(name):
            return None
        return await self.store.writable(name, SOURCE_KEY, dry=dry)

    async def _stored(self, target: Target | None) -> dict[str, KnownFile]:
        """The files of the sources that are stored; of a source that is a file, only that."""
        if target is None:
            return {}
        sources, stored = self.request.sources, self.store.points
        names = {one.name for one in sources}
        before = self.before.stored if self.before else {}
        # Another process may have deleted texts, or the collection and made it again.
        if before and await stored.count_of_files(target.collection, names) == sum(
            len(one.points) for one in before.values()
        ):
            return before
        points = await stored.of_files(target.collection, names)
        whole = tuple(f"{one.name}/" for one in sources if one.only is None)
        single = {one.only for one in sources}
        known = known_files(points).items()
        return {path: file for path, file in known if path in single or path.startswith(whole)}

    async def _store_files(self, files: Sequence[Found], target: Target | None) -> None:
        """Store what is new or changed; in a dry run count it."""
        self.model = target.dense.model if target and target.dense else ""
        waiting = self._waiting(files)
        self.report.sizes = sum(found.size for found in waiting)
        if target is None or self.request.dry_run:
            async for job in self._jobs(waiting):
                job.count()
            return
        encode = await self._encoder() if self.model and waiting else None
        writer = self.store.writer(target, encode, RETRIES)
        writer.before_swap = self._keep_replaced
        try:
            await writer.run(self._jobs(waiting))
        finally:
            self.report.pending = writer.pending
            self.store.catalog.forget(target.collection)
            if writer.pending:
                self.store.pending()

    def _waiting(self, files: Sequence[Found]) -> list[Found]:
        """The files that have to be read, those that may take long last; the others are counted."""
        waiting = []
        before = self.before.problems if self.before else ()
        unreadable = {one.path: one for one in before if one.stamp}
        for found in files:
            known = self.report.stored.get(found.path)
            bad = unreadable.get(found.path)
            if known and known.has(found.stamp, self.model):
                self.report.unchanged += 1
                self.owners.update(dict.fromkeys(known.documents, found.path))
            elif bad and bad.stamp == found.stamp:
                self.report.problems.append(bad)
            else:
                waiting.append(found)
        return sorted(waiting, key=lambda one: 0 if format_of(one.path).plain else one.size)

    async def _encoder(self) -> Encode:
        """The model of the collection, waited for while it is being loaded."""
        encoder, patient = self.store.encoders.of(self.model), self.request.patient
        if encoder.state == "loading" or (patient and encoder.state == "downloading"):
            self.report.phase = (encoder.reason or "Loading the model").rstrip(".")
            await encoder.ready(MODEL_SECONDS if patient else LOAD_SECONDS)
        self.limit = encoder.token_limit() or FALLBACK_TOKENS
        self.tokenizer = await encoder.tokenizer_json()
        encode = encoder.encode_documents
        return self.pace(encode) if self.pace else encode

    async def _jobs(self, waiting: Sequence[Found]) -> AsyncIterator["FileJob"]:
        """The files that have to be stored; the others are dealt with on the way."""
        self.report.phase = "Reading"
        for found in waiting:
            if job := await self.job(found):
                yield job
            else:
                self.report.sizes -= found.size

    async def job(self, found: Found) -> "FileJob | None":
        """The parts of a file; None where they are stored, or it is a problem by now."""
        try:
            with contained():
                now, data = await self.request.look(self._read, found)
                return await asyncio.to_thread(self._job, now, data)
        except UnusableFile as error:
            problem = Problem(found.path, str(error), error.kept, found.stamp)
        except Unforeseen as error:
            cause = error.__cause__
            if isinstance(cause, OSError):  # it is tried again; what is gone is not found then
                problem = Problem(found.path, f"cannot be read: {cause.strerror}", kept=True)
            else:
                logger.info("A file could not be read: %s.", error, exc_info=cause)
                reason = f"cannot be read: {error}"
                problem = Problem(found.path, reason, kept=True, stamp=found.stamp)
        self.report.problems.append(problem)
        return None

    def _job(self, found: Found, data: bytes) -> "FileJob | None":
        known = self.report.stored.get(found.path)
        version = hashlib.sha256(data).hexdigest()[:HASH], self.model
        if known and known.version == version:  # only the time is new
            self.owners.update(dict.fromkeys(known.documents, found.path))
            self.report.unchanged += 1
            self.report.stored[found.path] = replace(known, stamp=found.stamp)
            self.touched.append(found)
            return None
        loaded = self.reader.load(found.path, data, mask=self.store.mask)
        texts, notes = self._owned(found, loaded.texts)
        self.report.notes += [(found.path, note) for note in (*loaded.notes, *notes)]
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

    async def _keep_replaced(self, new: Sequence[Document]) -> None:
        """Keep what callers wrote under the ids of these texts of files."""
        await self._keep_edited({one.id: str((one.file or {})["path"]) for one in new}, "replaced")

    async def _keep_edited(self, paths: Mapping[PointId, str], fate: str) -> None:
        """Keep those of these first parts of texts, each of a file, that callers wrote; say so."""
        for old in await self.store.points.by_id(self.request.collection, list(paths)):
            if _edited(old):
                kept = await self.store.history.keep(old, deleted=fate == "removed")
                what = f"{str(old.document)[:SHOWN]!r} was written by a caller and is {fate}"
                how = f"kept {kept.days} days: id {called(kept.id)}" if kept.id else "not kept"
                why = f": {kept.fault}" if kept.fault else ""
                self.report.notes.append((paths[old.id], f"{what}, {how}{why}"))

    async def _remove_the_gone(self, seen: Seen) -> None:
        """Remove what the files below the sources no longer hold."""
        report = self.report
        report.phase = "Removing"
        present = {found.path for found in seen.files}
        present -= {one.path for one in report.problems if not one.kept}
        present |= {one.path for one in report.problems if one.kept}
        for path in sorted(report.stored.keys() - present):
            if not path.startswith(tuple(seen.unseen)):
                report.removed.append(path)
                if not self.request.dry_run:
                    await self.drop(path, report.stored.pop(path), ())

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
            await self._keep_edited(dict.fromkeys(sorted(map(str, heads)), path), "removed")
            await self.store.points.delete_of_files(name, points, known.hashes)
            self.store.catalog.forget(name)
            self.store.written(name, ())


@dataclass(eq=False, kw_only=True)
class FileJob(Job):
    """A file whose parts are to be stored; so many secrets of its texts are `masked`."""

    run: Sync
    found: Found
    version: Version
    old: KnownFile | None
    masked: int

    @property
    def stored(self) -> KnownFile:
        """The state of the file once all is written."""
        points = {part.id: str(part.document) for part in self.parts}
        return KnownFile(points, {self.version[0]}, self.version, self.found.stamp)

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
        self.run.report.stored[self.found.path] = stored
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
    kept = {one.path for one in seen.problems if one.kept}
    looked_at = [one for one in known if one not in kept and not one.startswith((*seen.unseen,))]
    for source in request.sources:
        prefix = f"{source.name}/"
        stored = [path for path in looked_at if path.startswith(prefix)]
        replaced = len(stored) == 1 and any(path.startswith(prefix) for path in there)
        if source.only is None and stored and not replaced and there.isdisjoint(stored):
            raise RequestError(
                f"None of the {len(stored):,} files of {source.name!r} that are in "
                f"{request.collection!r} is in this folder. {ADVICE}"
            )
