"""The results of storing and deleting texts, and their earlier versions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from mcp_server_qdrant.core.datatypes import Dense, Document, PointId, Sparse
from mcp_server_qdrant.core.notation import cite, one_line

# How many times a word of the title counts in a stored BM25 vector.
TITLE_FACTOR = 3
LISTED = 20  # versions listed at a time
LINE = 100  # characters of a version's title and text

T = TypeVar("T")


def batched(items: Iterable[T], size: Callable[[T], int], bound: int) -> Iterator[list[T]]:
    """The items in batches, each of which ends with the item that reaches the bound."""
    some, total = list[T](), 0
    for one in items:
        some.append(one)
        total += size(one)
        if total >= bound:
            yield some
            some, total = [], 0
    if some:
        yield some


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """The kept version of a replaced or deleted text: its `id` and the `days` it is kept.

    `fault`: why it could not be kept. All are empty if no versions are kept. `file`: it came from a
    file, so a sync can restore it.
    """

    id: str | None = None
    days: int = 0
    fault: str | None = None
    file: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """The documents of some ids (one part of each), and the ids that were not found."""

    documents: tuple[Document, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """The points of a collection that match a filter: their exact `count`, and `examples`.

    Deleted texts can be restored for `days`. `partly` are texts of which only some parts match;
    they are not deleted. `partly` is None if there are too many to check; then the number of points
    to delete (`going`) is unknown too.
    """

    collection: str
    count: int
    examples: tuple[Document, ...]
    days: int
    partly: tuple[Document, ...] | None = ()
    going: int | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion by filter: the number of points, and their kept versions.

    `changed` counts points that were written in the meantime, and `partly` are texts of which only
    some parts match; both are not deleted.
    """

    points: int
    kept: tuple[KeptVersion, ...]
    changed: int = 0
    partly: tuple[Document, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of storing a text.

    `pending`: it waits for its dense vector, until the operator fixes what `lacking` says.
    `without_vector`: why it will get none. `kept` names the fields that an update left unchanged,
    `replaced` counts the parts that it replaced. `near` are other memories about the same subject,
    each with its cosine and the text that superseded it. `retired` are the texts that it
    supersedes, `lifted` those that it no longer supersedes; `heir` is the text that superseded it.
    `moved` is the text at its previous place. `masked` counts the masked secrets. `before` is the
    replaced version; `restored`: it is a restored version. `expires`: from then on it is not found.
    `lines` are the first and the last line that an edit changed.
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
    near: tuple[tuple[Document, float, Document | None], ...] = ()
    retired: tuple[Document, ...] = ()
    lifted: tuple[Document, ...] | None = None
    heir: Document | None = None
    moved: Document | None = None
    masked: int = 0
    before: KeptVersion = KeptVersion()
    restored: bool = False
    hint: str = ""
    expires: str | None = None
    lines: tuple[int, int] | None = None


class Encoded(NamedTuple):
    """A part of a text with its vectors; `dense` is None while the model is unavailable."""

    part: Document
    dense: Dense | None
    sparse: Sparse


@dataclass(frozen=True, slots=True)
class Changes:
    """New values; None: unchanged. Only the named metadata keys change; None removes a key."""

    title: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None
    created_at: str | None = None
    expires: str | None = None

    def applied_to(self, part: Document) -> Document:
        """The part with the changes applied."""
        metadata = {**(part.metadata or {}), **(self.metadata or {})}
        kept = {key: value for key, value in metadata.items() if value is not None}
        return part._replace(
            title=part.title if self.title is None else self.title or None,
            tags=part.tags if self.tags is None else self.tags,
            metadata=part.metadata if self.metadata is None else kept or None,
            created_at=self.created_at or part.created_at,
            dated=part.dated or self.created_at is not None,
            expires=part.expires if self.expires is None else self.expires or None,
        )


@dataclass(frozen=True, slots=True)
class Version:
    """A text as it was until it was replaced or `deleted`, and by whom.

    `id` ends in `until` (ISO 8601, UTC); `own` is the id from the caller or the content; `by` is
    like `Document.stored_by`. `document` has only the start of the text unless `parts` were read.
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
        return f"{'deleted' if self.deleted else 'replaced'}{f' by {cite(who)}' if who else ''}"

    @property
    def summary(self) -> str:
        """A summary on one line."""
        title, text = self.document.title, self.document.text
        about = one_line(f"{title}: {text}" if title else text, LINE)
        return f"{cite(self.collection)} (id {cite(self.id)}) · {self.ended} · {about}"
