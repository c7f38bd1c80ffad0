"""Files to collections: look, compare with what is stored, store the new, remove what is gone.

The state is in the collection: every point says which file it is of, with which contents. Ids
follow from collection, document and chunk. So a run that is cut short is taken up by the next one,
on any machine, and two runs at once write the same points.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic, time

from typing_extensions import override

from mcp_server_qdrant.core.datatypes import Document, Payload, PointId, Target
from mcp_server_qdrant.core.disk import opened
from mcp_server_qdrant.core.errors import Unforeseen, UnusableFile, contained
from mcp_server_qdrant.core.notation import cite, iso, parse_time
from mcp_server_qdrant.encoders.chunk import split, token_count
from mcp_server_qdrant.ingest.attributes import MAX_TITLE, fault
from mcp_server_qdrant.ingest.encoding import shortened
from mcp_server_qdrant.ingest.files.plan import Plan, plan
from mcp_server_qdrant.ingest.files.reader import Reader
from mcp_server_qdrant.ingest.files.state import (
    KnownFile,
    Report,
    SyncRequest,
    Version,
    known_files,
)
from mcp_server_qdrant.ingest.files.walk import Found, Problem, walk_all
from mcp_server_qdrant.ingest.formats.base import Loaded
from mcp_server_qdrant.ingest.formats.load import format_of
from mcp_server_qdrant.ingest.parts import breaks, numbered, parts_of, sections, sections_of
from mcp_server_qdrant.ingest.store import FALLBACK_TOKENS, OVERLAP, Store
from mcp_server_qdrant.ingest.writer import RETRIES, Encode, Job, Outcomes
from mcp_server_qdrant.qdrant.payload import SOURCE_KEY

LOAD_SECONDS, MODEL_SECONDS = 30, 900  # the latter for a download
HASH = 32  # characters of the hash of the contents
LARGE = 20  # times the limit, for a format whose files may be large
MB = 1_000_000
SHOWN = 80  # characters of an id in a note

logger = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class FileJob(Job):
    """A file whose parts are to be stored; so many secrets of its texts are `masked`."""

    found: Found
    version: Version
    old: KnownFile | None
    masked: int

    @property
    def state(self) -> KnownFile:
        """The state of the file once all is written."""
        points = {part.id: str(part.document) for part in self.parts}
        return KnownFile(points, {self.version[0]}, self.version, self.found.stamp)


@dataclass(eq=False)
class Sync(Outcomes[FileJob]):
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
    expiring: bool = field(default=False, init=False)  # texts that expire are looked for

    async def run(self) -> Report:
        """Do it; the report.

        Raises RequestError where it would do harm or the collection cannot be written to, and
        BackendError where the engine is away: what is done by then stays done.
        """
        request, report = self.request, self.report
        seen = await request.look(walk_all, request.sources, request.selection)
        report.files = len(seen.files)
        target = await self._target()
        self.model = target.dense.model if target and target.dense else ""
        report.stored = await self._known(target)
        before = self.before.problems if self.before else ()
        todo = plan(request, seen, report.stored, self.model, before)
        with closing(self.reader):
            await self._apply(todo, None if request.dry_run else target)
        report.seconds = monotonic() - report.started
        return report

    async def _apply(self, todo: Plan, target: Target | None) -> None:
        """Do what is planned; without a target, only count it."""
        report = self.report
        report.problems += todo.problems
        report.unchanged = len(todo.unchanged)
        report.sizes = sum(found.size for found in todo.read)
        for path in todo.unchanged:
            self.owners.update(dict.fromkeys(report.stored[path].documents, path))
        if target is not None:
            await self._write(todo.read, target)
        else:
            async for job in self._jobs(todo.read):
                self._count(job)
        remove = set(todo.remove)
        if self.request.mirror:  # files that turned out to be unusable
            bad = report.problems[len(todo.problems) :]
            remove |= {one.path for one in bad if not one.kept} & report.stored.keys()
            report.phase = "Removing"
        for path in sorted(remove):
            report.removed.append(path)
            if target is not None:
                await self._drop(path, report.stored.pop(path), ())

    async def _target(self) -> Target | None:
        """The collection to write to, made where there is none; None in a dry run."""
        name, dry = self.request.collection, self.request.dry_run
        self.store.catalog.forget(name)  # another process may have deleted it
        if not dry:
            await self.store.ensure(name, create=self.request.create)
        elif not await self.store.catalog.exists(name):
            return None
        return await self.store.writable(name, SOURCE_KEY, dry=dry)

    async def _known(self, target: Target | None) -> dict[str, KnownFile]:
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

    async def _write(self, files: Sequence[Found], target: Target) -> None:
        """Store what is new or changed."""
        encode = await self._encoder() if self.model and files else None
        writer = self.store.writer(target, encode, RETRIES, self)
        try:
            await writer.run(self._jobs(files))
        finally:
            self.report.pending = writer.pending
            self.store.catalog.forget(target.collection)
            if writer.pending:
                self.store.pending()
        for found in self.touched:
            known = self.report.stored[found.path]
            points, contents = list(known.points), known.hashes
            await self.store.points.file_seen(target.collection, points, contents, found.mtime)

    async def _encoder(self) -> Encode:
        """The model of the collection, waited for while it is being loaded."""
        encoder, patient = self.store.encoders.started(self.model), self.request.patient
        if encoder.state == "loading" or (patient and encoder.state == "downloading"):
            self.report.phase = (encoder.reason or "Loading the model").rstrip(".")
            await encoder.ready(MODEL_SECONDS if patient else LOAD_SECONDS)
        self.limit = encoder.token_limit() or FALLBACK_TOKENS
        self.tokenizer = await encoder.tokenizer_json()
        encode = encoder.encode_documents
        return self.pace(encode) if self.pace else encode

    async def _jobs(self, files: Sequence[Found]) -> AsyncIterator[FileJob]:
        """The files that have to be stored; the others are dealt with on the way."""
        self.report.phase = "Reading"
        for found in files:
            if job := await self.job(found):
                yield job
            else:
                self.report.sizes -= found.size

    async def job(self, found: Found) -> FileJob | None:
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

    def _job(self, found: Found, data: bytes) -> FileJob | None:
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
        modified = parse_time(file["mtime"] / 1e9)
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
        )._replace(**text.kept or {})
        parts = [
            part._replace(section=section, sections=inside)
            for part, (section, inside) in zip(
                parts_of(whole, text.text, chunks, text.offset),
                sections_of(text.text, text.marks, chunks),
                strict=True,
            )
        ]
        return numbered(parts, self.store.points.identify)

    @override
    async def replacing(self, heads: Sequence[Document]) -> None:
        """Keep what callers wrote under the ids of these texts of files; expect what expires."""
        if any(one.expires for one in heads) and not self.expiring:
            await self.store.points.expect_expiry(self.request.collection)
            self.store.catalog.forget(self.request.collection)
            self.expiring = True
        await self._keep_edited(
            {one.id: str((one.file or {})["path"]) for one in heads}, "replaced"
        )

    async def _keep_edited(self, paths: Mapping[PointId, str], fate: str) -> None:
        """Keep those of these first parts of texts, each of a file, that callers wrote; say so."""
        for old in await self.store.points.by_id(self.request.collection, list(paths)):
            if _edited(old):
                kept = await self.store.history.keep(old, deleted=fate == "removed")
                what = f"{str(old.document)[:SHOWN]!r} was written by a caller and is {fate}"
                how = f"kept {kept.days} days: id {cite(kept.id)}" if kept.id else "not kept"
                why = f": {kept.fault}" if kept.fault else ""
                self.report.notes.append((paths[old.id], f"{what}, {how}{why}"))

    @override
    def wrote(self, job: FileJob, count: int) -> None:
        self.report.phase = "Storing"
        self.report.texts += count
        self.report.size += count * job.found.size / len(job.parts)

    @override
    async def stored(self, job: FileJob) -> None:
        """What the earlier contents of the file had more is removed."""
        state = job.state
        if job.old:
            await self._drop(job.found.path, job.old, state.points)
        self.report.stored[job.found.path] = state
        self._count(job)

    @override
    def failed(self, job: FileJob, reason: str) -> None:
        problem = Problem(job.found.path, f"cannot be stored: {reason}", kept=True)
        self.report.problems.append(problem)

    def _count(self, job: FileJob) -> None:
        (self.report.changed if job.old else self.report.new).append(job.found.path)
        self.report.masked += job.masked

    async def _drop(self, path: str, known: KnownFile, kept: Container[PointId]) -> None:
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


def _edited(old: Document) -> bool:
    """True for a text that a caller stored, or changed since a file was stored."""
    nanoseconds = (old.file or {}).get("mtime")
    when = parse_time(nanoseconds / 1e9) if isinstance(nanoseconds, int) else None
    return when is None or old.updated_at not in (old.created_at, iso(when))
