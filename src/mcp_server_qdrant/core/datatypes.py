"""The data types of the server. All are immutable; changes make copies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

from mcp_server_qdrant.core.revision import Revision

Payload = dict[str, Any]
PointId = str | int
Dense = Sequence[float]
Distance = Literal["cosine", "dot", "euclid", "manhattan"]
Mode = Literal["minimal", "full"]
Algorithm = Literal["hybrid", "semantic", "keyword", "fuzzy"]
Priority = Literal["natural", "soft", "medium", "hard"]
State = Literal["ok", "degraded", "skipped", "failed", "timeout"]
RerankState = Literal["applied", "skipped", "degraded"]
SPARSE_NAME = "bm25"
Provider = Literal["fastembed", "none", "openai"]  # of vectors; docs/models.md
MODEL_KEY = "embedding_model"  # in a collection's metadata
SUPERSEDED_KEY = "superseded_by"
STORED_BY = "stored_by"
SUPERSEDED_IN = "superseded_in"  # the successor's collection, if it is another one
# The top-level payload keys that this server writes; keys in `metadata` are free.
OURS = frozenset(("document", "metadata", "title", "source", "tags", "doc", SUPERSEDED_KEY))
OURS |= {"created_at", "updated_at", SUPERSEDED_IN, STORED_BY}
OUR_DOC = frozenset(("id", "chunk", "chunks"))  # in every `doc` of ours
TAG_KEYS = ("tags", "metadata.tags")
SNIPPET = 160  # characters
RRF_K = 60  # rank r on a leg (from 0) adds 1 / (r + RRF_K) in the fusion


class DenseLeg(NamedTuple):
    """The dense vector of a collection that is searched.

    `vector` is its name ("" if unnamed), `size` its dimensions, `model` the query encoder.
    """

    vector: str
    size: int
    distance: Distance
    model: str


class SparseLeg(NamedTuple):
    """The BM25 vector of a collection. `idf` says whether the engine applies its own IDF."""

    vector: str
    idf: bool


@dataclass(frozen=True, slots=True)
class Target:
    """A collection resolved for searching: its legs and counts.

    `documents` is N_c, the points that carry the sparse vector (all points without one).
    `note`: a sentence on why a leg is missing. `failed`: the collection could not be read.
    `expiring`: some of its texts may have expired.
    `filling` is a sparse vector that an upgrade is adding; it is written, but not searched yet.
    `dates` are the payload paths with a date index. Targets with the same `space` are searched
    together; those without one are searched separately.
    """

    collection: str
    points: int
    dense: DenseLeg | None
    sparse: SparseLeg | None
    documents: int = 0
    note: str | None = None
    failed: bool = False
    filling: SparseLeg | None = None
    dates: tuple[str, ...] = ()
    space: str | None = None
    expiring: bool = False

    @property
    def written(self) -> SparseLeg | None:
        """The sparse vector for storing points."""
        return self.filling or self.sparse


class Targets(tuple[Target, ...]):
    """The targets of a search; a catalog returns the same object until one changes."""

    @classmethod
    def from_sequence(cls, targets: Sequence[Target]) -> "Targets":
        """The targets as `Targets`; unchanged if they already are."""
        return targets if isinstance(targets, cls) else cls(targets)

    @cached_property
    def groups(self) -> Sequence[Sequence[Target]]:
        """Targets grouped by space and legs; each target without a space is a group."""
        found: dict[Any, list[Target]] = {}
        for one in self:
            alone = one.collection if one.space is None else None
            key = alone, one.space, one.dense, one.sparse, one.failed, one.note
            found.setdefault(key, []).append(one)
        return [*found.values()]

    @cached_property
    def ok_statuses(self) -> Mapping[str, "Status"]:
        """Collection -> status ok, for a search in which all collections answered."""
        return {one.collection: Status(one.collection, "ok") for one in self}

    @cached_property
    def separate_queries(self) -> int:
        """The number of collections and vector spaces that are queried separately."""
        return len({one.space or (one.collection,) for one in self})


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: distinct token ids and weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LegQuery:
    """The query for one collection: None for a leg that is not searched.

    A sparse query without terms: the collection has none of the words, so all points score 0.
    `tags` (payload key, value) add a leg over the points that carry one of them. `where` is a
    filter in the engine's form, in addition to that of the search.
    """

    dense: Dense | None
    sparse: Sparse | None
    tags: tuple[tuple[str, str], ...] = ()
    where: Any = None


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that no searched collection has, and its replacement in the search."""

    word: str
    to: str


class Best(NamedTuple):
    """The `number` of candidates to return, of the highest relevance by `alpha` and `bound`."""

    number: int
    alpha: float
    bound: float


class Candidate(NamedTuple):
    """A point returned by the fused query, with its exact leg scores.

    `dense` is a cosine similarity, `sparse` a BM25 score with the global IDF: 0 if the point lacks
    the vector or shares no term with the query, None if the leg was not searched. `current` is
    False for a part of a text that was replaced or is not complete yet.
    """

    collection: str
    id: PointId
    rrf: float
    dense: float | None
    sparse: float | None
    payload: Payload
    current: bool | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """The fused candidates of collections that were searched together, best first.

    `targets` are those that answered. `damage` maps damaged collections to a sentence; `full`: the
    limit was reached, so there may be more candidates.
    """

    targets: Sequence[Target]
    candidates: Sequence[Candidate]
    full: bool = False
    damage: Mapping[str, str] = field(default_factory=dict)


class Status(NamedTuple):
    """The outcome of a search in one collection."""

    collection: str
    state: State
    reason: str | None = None


def own_doc(payload: Any) -> Mapping[str, Any]:
    """The `doc` that this server wrote in a payload; empty for points of other tools."""
    doc = payload.get("doc") if isinstance(payload, dict) else None
    return doc if isinstance(doc, dict) and doc.keys() >= OUR_DOC else {}


def is_current(
    version: str | None, chunk: int, writing: int | None, first: tuple[str | None, int] | None
) -> bool:
    """True if a further part belongs to the current version of its text.

    The first part decides: it has the current version and the number of parts, so replacing it
    replaces the whole text atomically. Without a first part, a part counts unless its write never
    finished.
    """
    if first is None:
        return writing is None
    return version == first[0] and chunk < first[1]


class Document(NamedTuple):
    """A stored text or a part of one, independent of the tool and format that wrote it.

    `chunk` counts from 0 within `chunks`; `start` and `end` are character offsets in the whole.
    `last` is the last chunk if several were joined; `torn`: they are not all of one version.
    `section` is the path of headings above its start; `sections` are (offset, path) of those that
    begin within the text, "" where one ends.
    `textless`: it has no text.
    `version` is set if the text has several parts. `head` is the id of the first part, set on the
    other parts only. `writing` is the start, in epoch seconds, of a write that is under way or was
    interrupted. `superseded_by` is the id of the text that supersedes it, `superseded_in` the
    collection of that text if it is another one, `heir` the point id of its first part. `stored_by`
    has `client`, `version` and `caller`. `dated`: `created_at` comes from the caller or file; it is
    not the time of storing. `file` describes the synced file. `pending` identifies this content
    while it waits for its vector. `expires`: from then on it is not found.
    """

    id: PointId
    collection: str
    text: str
    title: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] | None = None
    tags: tuple[str, ...] = ()
    created_at: str | None = None
    updated_at: str | None = None
    document: str | None = None
    chunk: int = 0
    chunks: int = 1
    start: int | None = None
    end: int | None = None
    last: int | None = None
    textless: bool = False
    section: str | None = None
    sections: tuple[tuple[int, str], ...] = ()
    torn: bool = False
    version: str | None = None
    head: PointId | None = None
    writing: int | None = None
    superseded_by: str | None = None
    superseded_in: str | None = None
    heir: PointId | None = None
    stored_by: Mapping[str, str] | None = None
    dated: bool = False
    file: Payload | None = None
    pending: str | None = None
    expires: str | None = None

    @property
    def revision(self) -> Revision:
        """The revision of the whole text."""
        return Revision(
            ours=self.document is not None,
            version=self.version,
            text=None if self.version or self.chunks > 1 else self.text,
            described=(self.title, self.source, self.metadata, self.tags),
            superseded_by=self.superseded_by,
            created_at=self.created_at,
            updated_at=self.updated_at,
            expires=self.expires,
        )

    @property
    def heading(self) -> str | None:
        """Its title and section, joined by " > "."""
        return " > ".join(filter(None, (self.title, self.section))) or None

    def current(self, head: "Document | None") -> bool:
        """`is_current` of this further part; `head` is the first."""
        first = None if head is None else (head.version, head.chunks)
        return is_current(self.version, self.chunk, self.writing, first)


class Passage(NamedTuple):
    """A contiguous quote from one part of a text, and its section."""

    text: str
    part: Document
    section: str | None = None


class Earlier(NamedTuple):
    """The `number` of earlier versions of a text, and when the last of them ended."""

    number: int
    since: str


@dataclass(frozen=True, slots=True)
class Result:
    """A text in the results, its relevance, and its matching passages, best first.

    `document` is the part of the first passage; `left` counts other matching parts that are not
    shown. `supersedes` is the id of the superseded text that it replaces in the list, `in_time` its
    order among texts about the same subject ("newest of 3", "older"). A list of the newest texts
    has no relevance. `why` has the numbers behind its rank, as the tool returns them. `elsewhere`:
    its collection is not searched by default. `as_of`: the text was changed later, and `document`
    is its version of that day. `earlier` are the versions before `document`.
    """

    document: Document
    relevance: float | None
    score: float
    passages: tuple[Passage, ...] = ()
    why: Mapping[str, Any] | None = None
    also: tuple[Document, ...] = ()
    left: int = 0
    supersedes: str | None = None
    elsewhere: bool = False
    in_time: str | None = None
    as_of: str | None = None
    earlier: Earlier | None = None

    @property
    def passage(self) -> str:
        """The best passage; empty if none is shown."""
        return self.passages[0].text if self.passages else ""

    @property
    def snippet(self) -> str:
        """The start of the best passage, or else of the text, on one line."""
        return " ".join((self.passage or self.document.text).split())[:SNIPPET]

    @property
    def title(self) -> str:
        """Its title and section, or else the snippet."""
        return self.document.heading or self.snippet


@dataclass(frozen=True, slots=True)
class Reranked:
    """The outcome of reranking: `model` scored the best `pool` hits, or the `reason` why not.

    "skipped": it was not tried; "degraded": it failed.
    """

    state: RerankState
    model: str | None = None
    pool: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The results of one search. `notes` are sentences for the caller.

    `advice` are sentences on how to get more. `searched` is the corrected query. `rerank` is None
    if it was not requested. `more` is the number of results not shown; `weak`: even the best is
    hardly a match. `nothing` is the note that nothing was found.
    """

    query: str
    results: Sequence[Result]
    statuses: Sequence[Status]
    notes: Sequence[str] = ()
    rerank: Reranked | None = None
    corrections: Sequence[Correction] = ()
    more: int = 0
    weak: bool = False
    advice: Sequence[str] = ()
    searched: str = ""
    nothing: str | None = None


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A text to store. `id` None: the id is derived from the content.

    If it replaces a text, other fields that are None keep their old values. `expires` "": never.
    """

    text: str
    metadata: Mapping[str, Any] | None = None
    id: str | None = None
    title: str | None = None
    source: str | None = None
    tags: tuple[str, ...] | None = None
    created_at: datetime | None = None
    stored_by: Mapping[str, str] | None = None
    expires: str | None = None


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection as described by `qdrant-collections`."""

    name: str
    points: int
    legs: tuple[str, ...]
    model: str | None
    updated_at: str | None = None
    note: str | None = None
    description: str | None = None
    expires: str | None = None
    writers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that encodes queries for a collection; `fault`: why there is none.

    `certain`: named by the collection or a setting, so not merely the default.
    """

    model: str | None
    certain: bool = False
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files of a folder to sync: patterns as in .gitignore, relative to the folder."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class SyncedFolder:
    """A folder or file that is synced into a collection.

    `keep`: texts of deleted files stay in the collection.
    """

    path: Path
    collection: str
    name: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keep: bool = False

    @property
    def selection(self) -> Selection:
        """Which of its files to sync."""
        return Selection(self.include, self.exclude)

    @property
    def label(self) -> str:
        """The given name, or else the folder's own."""
        return self.name or self.path.name


@dataclass(frozen=True, eq=False, slots=True)
class Sample:
    """Points sampled from a collection: `vectors` (n, d) as stored, and parallel columns.

    `documents` are the ids of the points' texts, as all tools show them. `texts` are the starts of
    the texts, longer than `snippets`; `facts` are short payload values by key. `without` counts the
    sampled points that lack the vector.
    """

    ids: tuple[PointId, ...]
    documents: tuple[str, ...]
    titles: tuple[str, ...]
    snippets: tuple[str, ...]
    texts: tuple[str, ...]
    facts: tuple[Mapping[str, Sequence[str]], ...]
    vectors: "NDArray[Any]" = field(repr=False)
    without: int = 0
