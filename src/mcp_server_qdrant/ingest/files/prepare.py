"""One file -> the parts to be stored of it, made in a thread."""

import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import time

from mcp_server_qdrant.core.datatypes import Document, Payload
from mcp_server_qdrant.core.errors import Unforeseen, UnusableFile, contained
from mcp_server_qdrant.core.notation import Identify, iso, moment, point_id
from mcp_server_qdrant.core.opening import opened
from mcp_server_qdrant.ingest.chunk import split, tokens
from mcp_server_qdrant.ingest.encoding import shortened
from mcp_server_qdrant.ingest.fields import MAX_TITLE, fault
from mcp_server_qdrant.ingest.files.reader import Reader
from mcp_server_qdrant.ingest.files.state import HASH, KnownFile, Version
from mcp_server_qdrant.ingest.files.walk import Found, Problem
from mcp_server_qdrant.ingest.formats.base import Loaded
from mcp_server_qdrant.ingest.formats.load import format_of
from mcp_server_qdrant.ingest.parts import breaks, numbered, parts_of, sections, sections_of

OVERLAP = 0.15
LARGE = 20  # times the limit, for a format whose files may be large
MB = 1_000_000
SHOWN = 80  # characters of an id in a note

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file whose parts are to be stored; so many secrets of its texts are `masked`."""

    found: Found
    parts: list[Document]
    version: Version
    notes: list[str]
    masked: int

    @property
    def known(self) -> KnownFile:
        """The state of the file once all is written."""
        points = {part.id: str(part.document) for part in self.parts}
        hashes = {self.version[0]}
        return KnownFile(points, hashes, self.version, self.found.mtime, self.found.size)


@dataclass(eq=False)
class Preparer:
    """Reads files for one run into one collection. Used by one thread at a time.

    `owners` maps each document of a file that stays as it is to that file. A chunk has at most
    `limit` tokens of the model, by its tokenizer (None: guessed); without a limit none are made.
    """

    collection: str
    model: str
    owners: dict[str, str]
    max_bytes: int
    limit: int | None = None
    tokenizer: str | None = None
    identify: Identify = point_id
    reader: Reader = field(default_factory=Reader)
    mask: bool = True

    def prepare(self, found: Found, known: KnownFile | None) -> Prepared | Found | Problem:
        """The parts of a file; the file, where its contents are stored; or why there are none."""
        try:
            with contained():
                return self._prepare(found, known)
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

    def _prepare(self, found: Found, known: KnownFile | None) -> Prepared | Found:
        found, data = self._read(found)
        version = hashlib.sha256(data).hexdigest()[:HASH], self.model
        if known and known.version == version:
            self.owners.update(dict.fromkeys(known.documents, found.path))
            return found
        loaded = self.reader.load(found.path, data, mask=self.mask)
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
        again = known is not None
        parts = [part for text in texts for part in self._parts(file, text, again=again)]
        return Prepared(found, parts, version, [*loaded.notes, *notes], loaded.masked)

    def _read(self, found: Found) -> tuple[Found, bytes]:
        """The file as it is now, and its bytes. Raises OSError, UnusableFile."""
        most = self.max_bytes * (LARGE if format_of(found.path).large else 1)
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
        if self.limit is None:
            return []
        below = {f"{text.title} > {section}" for _, section in sections(text.marks)}
        titles = {shortened(title) for title in (text.title, *below)}
        reserve = 1 + max(tokens(title, self.tokenizer) for title in titles)
        limit = max(self.limit - reserve, self.limit // 2)
        chunks = split(
            text.text,
            limit=limit,
            tokenizer_json=self.tokenizer,
            overlap=int(limit * OVERLAP),
            breaks=breaks(text.text, text.marks),
        )
        modified = moment(file["mtime"] / 1e9)
        written = iso(modified) if modified else None
        created = iso(text.created_at) if text.created_at else None
        named = text.metadata is not None and any(
            isinstance(text.metadata.get(key), str) for key in ("source", "url")
        )
        whole = Document(
            id="",
            collection=self.collection,
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
                parts_of(whole, chunks, text.offset),
                sections_of(text.text, text.marks, chunks),
                strict=True,
            )
        ]
        return numbered(parts, self.identify)
