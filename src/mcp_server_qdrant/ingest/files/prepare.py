"""One file -> the chunks to be stored of it, made in a thread."""

import hashlib
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mcp_server_qdrant.core.datatypes import Chunk, Document, Payload, PointId
from mcp_server_qdrant.core.errors import Unforeseen, UnusableFile, contained
from mcp_server_qdrant.core.notation import Identify, iso, moment, point_id
from mcp_server_qdrant.core.opening import opened
from mcp_server_qdrant.core.rows import RowTemplate
from mcp_server_qdrant.core.writes import StoredPoint
from mcp_server_qdrant.ingest.chunk import split, tokens
from mcp_server_qdrant.ingest.encoding import encoded_text, shortened
from mcp_server_qdrant.ingest.fields import MAX_METADATA, MAX_TITLE, fault
from mcp_server_qdrant.ingest.files.reader import Reader
from mcp_server_qdrant.ingest.files.state import HASH, Contents, KnownFile, Version
from mcp_server_qdrant.ingest.files.walk import Found, Problem
from mcp_server_qdrant.ingest.formats.base import Loaded
from mcp_server_qdrant.ingest.formats.load import format_of
from mcp_server_qdrant.ingest.parts import numbered
from mcp_server_qdrant.ingest.sections import breaks, sections, sections_of

OVERLAP = 0.15
LARGE = 20  # times the limit, for a format whose files may be large
MB = 1_000_000
SHOWN = 80  # characters of an id in a note

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Measures:
    """Limits of a chunk: the model's tokens, and its tokenizer (None: tokens are guessed)."""

    limit: int
    tokenizer: str | None


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk, what the encoders read of it, and how many tokens that is, nearly."""

    chunk: Document
    text: str
    tokens: int


@dataclass(slots=True)
class Job:
    """A file whose chunks are to be stored. `left` of them are still to be written.

    `further` are those of each document but its first, which is written last, and is kept in
    `firsts` until then.
    """

    found: Found
    contents: Contents
    pieces: Sequence[Piece]
    documents: int
    old: KnownFile | None
    notes: list[str] = field(default_factory=list)
    left: int = 0
    failed: bool = False
    further: dict[str, set[PointId]] = field(default_factory=dict)
    firsts: dict[str, StoredPoint] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = len(self.pieces)
        for piece in self.pieces:
            waiting = self.further.setdefault(str(piece.chunk.document), set())
            if piece.chunk.chunk:
                waiting.add(piece.chunk.id)

    def date(self, written: str) -> None:
        """Let the file be of this time: it was renamed since. A text's own date stays."""
        dated: list[Piece] = []
        for piece in self.pieces:
            chunk = piece.chunk
            if not chunk.dated:
                chunk = chunk._replace(created_at=written, updated_at=written)
            elif chunk.document == self.found.path:
                chunk = chunk._replace(updated_at=written)
            dated.append(replace(piece, chunk=chunk))
        self.pieces = dated

    @property
    def state(self) -> Payload:
        """The part of each point's payload that names the file."""
        return {
            "source": self.found.source,
            "path": self.found.path,
            "hash": self.contents.hash,
            "mtime": self.found.mtime,
            "size": self.found.size,
            "documents": self.documents,
            "model": self.contents.model,
        }

    def written(self, documents: Collection[str]) -> list[Piece]:
        """The pieces of documents that are marked, and whole: but for those that replace others."""
        return [
            piece
            for piece in self.pieces
            if piece.chunk.document in documents and piece.chunk.chunks > 1
            if piece.chunk.chunk or not self.old
        ]

    @property
    def known(self) -> KnownFile:
        """The state of the file once all is written."""
        version = Version(
            {piece.chunk.id: str(piece.chunk.document) for piece in self.pieces},
            complete=True,
            mtime=self.found.mtime,
            size=self.found.size,
        )
        return KnownFile({self.contents: version})

    @property
    def torn(self) -> KnownFile:
        """The state of the file where only a part was written: nothing of it is complete."""
        versions = (self.old.versions if self.old else {}) | self.known.versions
        return KnownFile(
            {one: replace(version, complete=False) for one, version in versions.items()}
        )


def template_mark(path: str, rows: RowTemplate | None) -> str:
    """The end of the hash of a file whose rows a template reads, else ""."""
    return rows.digest if rows and format_of(path).rows else ""


@dataclass(frozen=True, slots=True)
class Same:
    """A file whose contents are stored already, though its time differs."""

    found: Found
    contents: Contents


@dataclass(eq=False)
class Preparer:
    """Reads files for one run into one collection. Used by one thread at a time.

    `owners` maps each document of a file that stays as it is to that file. Without measures texts
    are not cut.
    """

    collection: str
    model: str
    measures: Measures | None
    owners: dict[str, str]
    max_bytes: int
    identify: Identify = point_id
    max_metadata: int = MAX_METADATA
    rows: RowTemplate | None = None
    reader: Reader = field(default_factory=Reader)

    def prepare(self, found: Found, known: KnownFile | None) -> Job | Same | Problem:
        """The chunks of a file, or why there are none to store."""
        try:
            with contained():
                try:
                    return self._prepare(found, known)
                except FileNotFoundError:
                    reason, kept = "is gone", False
                except OSError as error:
                    reason, kept = f"cannot be read: {error.strerror}", True
        except UnusableFile as error:
            reason, kept = str(error), error.kept
        except Unforeseen as error:
            logger.info("A file could not be read: %s.", error, exc_info=error.__cause__)
            reason, kept = f"cannot be read: {error}", True
        return Problem(found.path, reason, kept, found.stamp)

    def _prepare(self, found: Found, known: KnownFile | None) -> Job | Same:
        found, data = self._read(found)
        mark = template_mark(found.path, self.rows)
        contents = Contents(hashlib.sha256(data).hexdigest()[:HASH] + mark, self.model)
        if known and contents in known.versions and known.versions[contents].complete:
            for document in known.versions[contents].points.values():
                self.owners[document] = found.path
            return Same(found, contents)
        loaded = self.reader.load(found.path, data, self.rows)
        texts, notes = self._owned(found, loaded.texts)
        pieces = [piece for text in texts for piece in self._pieces(found, text)]
        notes = [*loaded.notes, *notes]
        return Job(found, contents, pieces, len(texts), known, notes)

    def _read(self, found: Found) -> tuple[Found, bytes]:
        """The file as it is now, and its bytes. Raises OSError, UnusableFile."""
        most = self.max_bytes * (LARGE if format_of(found.path).large else 1)
        with opened(found.file, found.within) as file:
            status = os.fstat(file.fileno())
            if status.st_size > most:
                raise UnusableFile(
                    f"is larger than {most / MB:,.0f} MB: it has {status.st_size / MB:,.1f}"
                )
            data = file.read(most + 1)
        if len(data) > most:  # it is being written, or a file of the system's without a size
            raise UnusableFile(f"is larger than {most / MB:,.0f} MB")
        return replace(found, size=status.st_size, mtime=status.st_mtime_ns), data

    def _owned(self, found: Found, texts: Sequence[Loaded]) -> tuple[list[Loaded], list[str]]:
        """The texts that may be stored, their titles cut, and a note on the others.

        Another file may have the id of one, and one may carry too much.
        """
        owned, others = [], []
        for whole in texts:
            text = replace(whole, title=whole.title[:MAX_TITLE])
            if too_much := fault(text, self.max_metadata):
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

    def _pieces(self, found: Found, text: Loaded) -> Iterator[Piece]:
        if (measures := self.measures) is None:
            return
        below = {f"{text.title} > {section}" for _, section in sections(text.marks)}
        titles = {shortened(title) for title in (text.title, *below)}
        sizes = {title: tokens(title, measures.tokenizer) for title in titles}
        reserve = 1 + max(sizes.values())
        limit = max(measures.limit - reserve, measures.limit // 2)
        chunks = split(
            text.text,
            limit=limit,
            tokenizer_json=measures.tokenizer,
            overlap=int(limit * OVERLAP),
            markdown=text.markdown,
            breaks=breaks(text.text, text.marks),
        )
        documents = numbered(list(self._documents(found, text, chunks)), self.identify)
        for cut, chunk in zip(chunks, documents, strict=True):
            heading = sizes.get(shortened(chunk.heading), 0) if chunk.heading else 0
            yield Piece(chunk, encoded_text(chunk), heading + cut.tokens)

    def _documents(self, found: Found, text: Loaded, chunks: Sequence[Chunk]) -> Iterator[Document]:
        document = text.id or found.path
        modified = moment(found.mtime / 1e9)
        written = iso(modified) if modified else None
        created = iso(text.created_at) if text.created_at else written
        named = text.metadata is not None and any(
            isinstance(text.metadata.get(key), str) for key in ("source", "url")
        )
        around = sections_of(text.text, text.marks, chunks)
        for number, (chunk, (section, inside)) in enumerate(zip(chunks, around, strict=True)):
            yield Document(
                id="",
                collection=self.collection,
                text=chunk.text,
                title=text.title or None,
                source=None if named else found.path,
                metadata=text.metadata,
                tags=text.tags,
                created_at=created,
                # A text with an id is a message or a row: its file's time is that of an export.
                updated_at=created if text.id else written,
                dated=text.created_at is not None,
                document=document,
                chunk=number,
                chunks=len(chunks),
                start=chunk.start + text.offset,
                end=chunk.end + text.offset,
                section=section,
                sections=inside,
            )
