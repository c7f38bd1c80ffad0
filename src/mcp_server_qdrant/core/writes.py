"""The data of a text that is stored or deleted, and of its earlier versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mcp_server_qdrant.core.datatypes import Dense, Document, PointId, Sparse
from mcp_server_qdrant.core.notation import called, line

# How often a word of a title counts in the BM25 vectors that are stored.
TITLE_FACTOR = 3
LISTED = 20  # versions of a text at a time
LINE = 100  # characters of the title and text of a version


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a text that was replaced or deleted: the version's `id` for so many `days`, or
    the `fault` that it could not be kept for. Nothing where none are kept. `file`: it was from a
    file, which brings it back.
    """

    id: str | None = None
    days: int = 0
    fault: str | None = None
    file: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """The documents of some ids (of each one part, for its title), and the ids that are nowhere."""

    documents: tuple[Document, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """The points that a filter matches in a collection: their exact number, and a few of them.

    What is deleted of them is kept for so many `days`. Of the texts `partly` matched some parts
    match, and others do not: they stay. None where there are too many to look: then nobody knows
    how many points would be deleted (`going`).
    """

    collection: str
    count: int
    examples: tuple[Document, ...]
    days: int
    partly: tuple[Document, ...] | None = ()
    going: int | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion by filter: the number of points, and how their texts are kept.

    `changed` points were written meanwhile and stay, and so do the texts that match `partly`.
    """

    points: int
    kept: tuple[Kept, ...]
    changed: int = 0
    partly: tuple[Document, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of storing a text.

    `pending` points wait for their dense vector, which comes once what is `lacking` was mended;
    `without_vector` says why there will be none;
    `kept` names what an update left as it was, `replaced` counts the parts it replaced. `near` is
    another memory that the text nearly repeats, with its cosine; `retired` the superseded one;
    `moved` the text where it was before, if it was moved. `masked` counts the secrets in what was
    given. `before` is the version that it replaced; `restored`: it is an earlier version itself.
    """

    collection: str
    document: str
    ids: tuple[PointId, ...]
    updated: bool = False
    created_collection: bool = False
    pending: bool = False
    lacking: str | None = None
    without_vector: str | None = None
    kept: tuple[str, ...] = ()
    replaced: int = 0
    near: tuple[Document, float] | None = None
    retired: Document | None = None
    moved: Document | None = None
    masked: int = 0
    before: Kept = Kept()
    restored: bool = False


class Encoded(NamedTuple):
    """A part of a text with its vectors; no dense one where the model is not there yet."""

    part: Document
    dense: Dense | None
    sparse: Sparse


@dataclass(frozen=True, slots=True)
class Changes:
    """New values, None for what stays. Of the metadata only the named keys change; None removes."""

    title: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None
    created_at: str | None = None

    def made(self, part: Document) -> Document:
        """The part with these values."""
        metadata = {**(part.metadata or {}), **(self.metadata or {})}
        kept = {key: value for key, value in metadata.items() if value is not None}
        return part._replace(
            title=part.title if self.title is None else self.title or None,
            tags=part.tags if self.tags is None else self.tags,
            metadata=part.metadata if self.metadata is None else kept or None,
            created_at=self.created_at or part.created_at,
            dated=part.dated or self.created_at is not None,
        )


@dataclass(frozen=True, slots=True)
class Version:
    """What a text was until it was replaced or `deleted`, and by whom.

    `id` ends in `until`, ISO 8601 in UTC; `own` is the id that the caller or the content gave; `by`
    is as `Document.stored_by`. The `document` has its beginning only, unless its `parts` were read.
    """

    id: str
    collection: str
    until: str
    by: Mapping[str, str]
    deleted: bool
    document: Document
    parts: tuple[Document, ...] = ()
    own: str = ""

    @property
    def ended(self) -> str:
        """Whether it was deleted or replaced, and by whom."""
        who = self.by.get("caller") or self.by.get("client")
        return f"{'deleted' if self.deleted else 'replaced'}{f' by {called(who)}' if who else ''}"

    @property
    def line(self) -> str:
        """All of it on one line."""
        title, text = self.document.title, self.document.text
        about = line(f"{title}: {text}" if title else text, LINE)
        return f"{called(self.collection)} (id {called(self.id)}) · {self.ended} · {about}"
