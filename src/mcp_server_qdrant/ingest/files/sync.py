"""Syncs files into a collection: walk, plan, store what is new or changed, remove what is gone.

The state is in the collection: each point names its file and a hash of its contents, and ids derive
from collection, document and chunk. So an interrupted run can be continued on any machine, and
concurrent runs write the same points.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from time import monotonic, time
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.datatypes import (
    SUPERSEDED_IN,
    SUPERSEDED_KEY,
    Document,
    Payload,
    PointId,
    Target,
)
from mcp_server_qdrant.core.disk import open_file
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
    """A file whose parts are to be stored; `masked` is the number of secrets in its texts.

    `moved` is its earlier path, if it has only moved.
    """

    found: Found
    version: Version
    old: KnownFile | None
    masked: int
    moved: str | None

    @property
    def renamed(self) -> dict[str, str]:
        """The ids of texts that begin with the file's path -> those before it moved."""
        path, was = self.found.path, self.moved
        ids = {str(part.document) for part in self.parts}
        return {one: was + one.removeprefix(path) for one in ids if was and one.startswith(path)}


@dataclass(eq=False)
class Sync(Outcomes[FileJob]):
    """One run of a request; fills the `report`.

    `before`, the report of the previous run, saves reading the stored state again, and unreadable
    files that have not changed. `pace` throttles a model.
    """

    store: Store
    request: SyncRequest
    report: Report = field(default_factory=Report)
    before: Report | None = None
    pace: Callable[[Encode], Encode] | None = None
    model: str = field(default="", init=False)
    limit: int = field(default=FALLBACK_TOKENS, init=False)  # tokens of a part
    tokenizer: str | None = field(default=None, init=False)  # None: tokens are estimated
    reader: Reader = field(default_factory=Reader, init=False)
    owners: dict[str, str] = field(default_factory=dict, init=False)  # document -> its file
    touched: list[Found] = field(default_factory=list, init=False)  # only the time has changed
    expiring: bool = field(default=False, init=False)  # the collection can hold `expires`

    async def run(self) -> Report:
        """Run and return the report; what was done before an error stays done.

        Raises RequestError if the run would do harm or the collection is not writable, and
        BackendError if the engine is unavailable.
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
        """Apply the plan; without a target (a dry run), only count."""
        report = self.report
        report.problems += todo.problems
        report.unchanged, report.moved = len(todo.unchanged), dict(todo.moved)
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
        """The collection, created if need be; None if it is missing in a dry run."""
        name, dry = self.request.collection, self.request.dry_run
        self.store.catalog.forget(name)  # another process may have deleted it
        if not dry:
            await self.store.ensure(name, create=self.request.create)
        elif not await self.store.catalog.exists(name):
            return None
        return await self.store.writable(name, SOURCE_KEY, dry=dry)

    async def _known(self, target: Target | None) -> dict[str, KnownFile]:
        """The stored files of the sources."""
        if target is None:
            return {}
        sources, stored = self.request.sources, self.store.points
        names = {one.name for one in sources}
        before = self.before.stored if self.before else {}
        # Another process may have deleted texts, or the collection and made it again.
        if before and await stored.count_file_points(target.collection, names) == sum(
            len(one.points) for one in before.values()
        ):
            return before
        points = await stored.file_points(target.collection, names)
        whole = tuple(f"{one.name}/" for one in sources if one.only is None)
        single = {one.only for one in sources}
        known = known_files(points).items()
        return {path: file for path, file in known if path in single or path.startswith(whole)}

    async def _write(self, files: Sequence[Found], target: Target) -> None:
        """Store new and changed files."""
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
            await self.store.points.record_mtime(target.collection, points, contents, found.mtime)

    async def _encoder(self) -> Encode:
        """The model of the collection, once it is loaded."""
        encoder, patient = self.store.encoders.start_encoder(self.model), self.request.patient
        if encoder.state == "loading" or (patient and encoder.state == "downloading"):
            self.report.phase = (encoder.reason or "Loading the model").rstrip(".")
            await encoder.ready(MODEL_SECONDS if patient else LOAD_SECONDS)
        self.limit = encoder.token_limit() or FALLBACK_TOKENS
        self.tokenizer = await encoder.tokenizer_json()
        encode = encoder.encode_documents
        return self.pace(encode) if self.pace else encode

    async def _jobs(self, files: Sequence[Found]) -> AsyncIterator[FileJob]:
        """Yield the files to store; unchanged and unusable ones are recorded in the report."""
        self.report.phase = "Reading"
        for found in files:
            if job := await self.job(found):
                yield job
            else:
                self.report.sizes -= found.size

    async def job(self, found: Found) -> FileJob | None:
        """The job that stores a file; None if it is unchanged, or unusable."""
        try:
            with contained():
                now, data = await self.request.look(self._read, found)
                job = await asyncio.to_thread(self._job, now, data)
                if job is None or not job.moved:
                    self.report.moved.pop(found.path, None)
                return await self._follow(job) if job and job.renamed else job
        except UnusableFile as error:
            problem = Problem(found.path, str(error), error.keep_texts, found.stamp)
        except Unforeseen as error:
            cause = error.__cause__
            if isinstance(cause, OSError):  # the next run retries
                problem = Problem(found.path, f"cannot be read: {cause.strerror}", kept=True)
            else:
                logger.info("A file could not be read: %s.", error, exc_info=cause)
                reason = f"cannot be read: {error}"
                problem = Problem(found.path, reason, kept=True, stamp=found.stamp)
        self.report.moved.pop(found.path, None)
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
        place = self.report.moved.get(found.path)
        before = known or (self.report.stored[place] if place else None)
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
            earlier=before.vectors(self.model) if before else (),
            found=found,
            version=version,
            old=known,
            masked=loaded.masked,
            moved=place if before and before.hashes == {version[0]} else None,
        )

    async def _follow(self, job: FileJob) -> FileJob:
        """The job of a moved file, with what callers have changed in its texts.

        What these supersede names their new ids before they are written: if the run ends in
        between, the next one finds the same move.
        """
        name, points = self.request.collection, self.store.points
        old = {points.identify(name, was, 0): own for own, was in job.renamed.items()}
        kept = {old[str(one.id)]: _changed(one) for one in await points.by_id(name, [*old])}
        job.parts = [part._replace(**kept.get(str(part.document), {})) for part in job.parts]
        now = {was: own for own, was in job.renamed.items()}
        for one in await points.superseded_by(name, now):
            await points.retire(one, now[str(one.superseded_by)], name)
        return job

    def _read(self, found: Found) -> tuple[Found, bytes]:
        """The file with its present size and time, and its bytes. Raises OSError, UnusableFile."""
        most = self.request.max_bytes * (LARGE if format_of(found.path).large else 1)
        with open_file(found.file, found.within) as file:
            status = os.fstat(file.fileno())
            # A file that is being written, or is the system's, may have more than its size.
            data = file.read(most + 1) if status.st_size <= most else b""
        size = max(len(data), status.st_size)
        if size > most:
            raise UnusableFile(f"has {size:,} bytes, more than the {most:,} that are read")
        return replace(found, size=status.st_size, mtime=status.st_mtime_ns), data

    def _owned(self, found: Found, texts: Sequence[Loaded]) -> tuple[list[Loaded], list[str]]:
        """The texts to store, with titles cut, and notes on those left out or renamed.

        A text is left out if it exceeds a limit, or is an export that another file has too. If
        another file has its id, such as the number of a row, the file's path precedes it.
        """
        owned, others = [], []
        for whole in texts:
            text = replace(whole, title=whole.title[:MAX_TITLE])
            if too_much := fault(text):
                if text.id is None:
                    raise UnusableFile(too_much)
                others.append(f"{text.id[:SHOWN]!r} is left out: it {too_much}")
                continue
            owner = self.owners.get(text.id or found.path, found.path)
            if owner != found.path:
                if text.kept:
                    others.append(f"{text.id!r} is left out: {owner} has that id")
                    continue
                text = replace(text, id=f"{found.path}#{text.id}")
                others.append(f"{whole.id!r} is stored as {text.id!r}: {owner} has that id")
            self.owners[text.id or found.path] = found.path
            owned.append(text)
        if not owned:
            raise UnusableFile(f"has no text of its own: {others[0]}")
        return owned, others[:3] + ([f"and {len(others) - 3:,} more ids"] if others[3:] else [])

    def _parts(self, file: Payload, text: Loaded, *, again: bool) -> list[Document]:
        """The parts of a text, each with the state of its file."""
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
            # A text with an id is a message or a row, whose file is an export of another time.
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
        """Keep what callers wrote under these ids as earlier versions; prepare for `expires`."""
        if any(one.expires for one in heads) and not self.expiring:
            await self.store.points.index_expiry(self.request.collection)
            self.store.catalog.forget(self.request.collection)
            self.expiring = True
        files = {one.id: str((one.file or {})["path"]) for one in heads}
        await self._keep_edited(files, "replaced")

    async def _keep_edited(self, paths: Mapping[PointId, str], fate: str) -> None:
        """Keep earlier versions of texts that callers wrote, by their first parts; add notes."""
        for old in await self.store.points.by_id(self.request.collection, list(paths)):
            if _is_edited(old):
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
        """Remove the points of the file's earlier contents."""
        points = {part.id: str(part.document) for part in job.parts}
        if job.old:
            await self._drop(job.found.path, job.old, points)
        self.report.stored[job.found.path] = KnownFile(
            points, {job.version[0]}, job.version, job.found.stamp
        )
        self._count(job)

    @override
    def failed(self, job: FileJob, reason: str) -> None:
        self.report.moved.pop(job.found.path, None)
        problem = Problem(job.found.path, f"cannot be stored: {reason}", kept=True)
        self.report.problems.append(problem)

    def _count(self, job: FileJob) -> None:
        (self.report.changed if job.old else self.report.new).append(job.found.path)
        self.report.masked += job.masked

    async def _drop(self, path: str, known: KnownFile, kept: Container[PointId]) -> None:
        """Remove points of a file, except those of documents that are in another file now."""
        points = [
            point
            for point, document in known.points.items()
            if point not in kept and self.owners.get(document) in (None, path)
        ]
        if points:
            name, identify = self.request.collection, self.store.points.identify
            heads = {identify(name, one, 0) for one in known.points.values()}.intersection(points)
            if path not in self.report.moved.values():
                await self._keep_edited(dict.fromkeys(sorted(map(str, heads)), path), "removed")
            await self.store.points.delete_file_points(name, points, known.hashes)
            self.store.catalog.forget(name)
            self.store.written(name, ())


def _changed(old: Document) -> dict[str, Any]:
    """The fields of a file's text that a caller has changed."""
    fields = [SUPERSEDED_KEY, SUPERSEDED_IN]
    if _is_edited(old):
        fields += ["tags", "metadata", "expires", "updated_at"]
        # A title may be the file's name.
        fields += [] if PurePosixPath(str(old.source)).stem in str(old.title) else ["title"]
    return {name: getattr(old, name) for name in fields}


def _is_edited(old: Document) -> bool:
    """True for a text that a caller stored, or changed after the sync."""
    nanoseconds = (old.file or {}).get("mtime")
    when = parse_time(nanoseconds / 1e9) if isinstance(nanoseconds, int) else None
    return when is None or old.updated_at not in (old.created_at, iso(when))
