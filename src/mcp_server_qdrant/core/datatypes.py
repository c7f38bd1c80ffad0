"""The data that moves through the server. All of it is frozen; a stage returns changed copies."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

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
SUPERSEDED_IN = "superseded_in"  # the collection, where it is another one
# What this server writes itself at the top of a payload; a field inside `metadata` is free.
OURS = frozenset(("document", "metadata", "title", "source", "tags", "doc", SUPERSEDED_KEY))
OURS |= {"created_at", "updated_at", SUPERSEDED_IN, STORED_BY}
TAG_KEYS = ("tags", "metadata.tags")
SNIPPET = 160  # characters
RRF_K = 60  # rank r on a leg counts 1 / (r + RRF_K) in the fusion, r from 0


@dataclass(frozen=True, slots=True)
class DenseLeg:
    """The dense vector of a collection that a request searches.

    `vector` is its name ("" when unnamed), `size` its dimensions, `model` what encodes queries.
    """

    vector: str
    size: int
    distance: Distance
    model: str


@dataclass(frozen=True, slots=True)
class SparseLeg:
    """The BM25 vector of a collection. `idf` says whether the engine applies its own IDF."""

    vector: str
    idf: bool


@dataclass(frozen=True, slots=True)
class Target:
    """A collection resolved for one request: which legs it has and what it holds.

    `documents` is N_c, the points that carry the sparse vector (all points without one).
    `note` says in a sentence why a leg is missing, if one is; `failed` that it could not be read.
    `filling` is a sparse vector that an upgrade is giving to the points: written, not searched.
    `dates` are the payload paths that have an index of dates. Targets of one `space` are searched
    together; without one each is by itself.
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

    @property
    def written(self) -> SparseLeg | None:
        """The sparse vector that its points are stored with."""
        return self.filling or self.sparse


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: distinct token ids and weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LegQuery:
    """The query of one collection: None for a leg that is not searched.

    A sparse one without terms stands for a leg that has none of the words: all its points score 0.
    `tags` (payload key, value) add a leg over the points that carry one of them.
    """

    dense: Dense | None
    sparse: Sparse | None
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that no searched collection has, and what was searched for instead."""

    word: str
    to: str


class Candidate(NamedTuple):
    """One point that the fused query returned, with its exact leg scores.

    `dense` is a cosine similarity, `sparse` a BM25 score under the global idf: 0 of a point that
    lacks the vector, or shares no term with the query, None where the leg was not searched.
    `current` is False of a part of a text that was replaced, or is not whole yet.
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
    """The fused candidates of collections that were asked together, best first.

    `targets` are those that answered. `damage` says what is lost of a collection; `full`: there may
    be more candidates than were asked for.
    """

    targets: Sequence[Target]
    candidates: Sequence[Candidate]
    full: bool = False
    damage: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome of a search in one collection."""

    collection: str
    state: State
    reason: str | None = None


def is_current(
    version: str | None, chunk: int, writing: int | None, first: tuple[str | None, int] | None
) -> bool:
    """True if a further part belongs to the present version of its text.

    That is the version of the first part, which also says how many parts there are: whoever
    replaces it replaces the whole text at once. Without a first part, what was whole once is shown,
    and what never was is not.
    """
    if first is None:
        return writing is None
    return version == first[0] and chunk < first[1]


class Document(NamedTuple):
    """A stored text as a person or an agent sees it, whoever wrote it and in whatever shape.

    `chunk` counts from 0 within `chunks`; `start` and `end` are character offsets in the whole.
    `last` is the last chunk of a text joined of some, `torn` if they are not all of one version.
    `section` names the headings above its start; `sections` are those that begin within the text,
    each where it does, "" where one ends.
    `textless`: it has no text.
    `version` is that of a text of several parts, `head` the id of the first where this is another,
    `writing` is when a write began that is under way or was cut short, in epoch seconds.
    `superseded_by` is the id of the text that retired it, `superseded_in` its collection where that
    is another one, `heir` the first part of it. `stored_by` is `client`, `version` and `caller`.
    `dated`: its `created_at` is what its caller or file says, not when it was stored. `file` names
    the file that a sync took it from. `pending` marks this very text while it waits for its vector.
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

    @property
    def revision(self) -> str:
        """16 hex digits that are others as soon as the text, or what is stored with it, changes.

        All parts of a text of one version have the same.
        """
        text = self.version or (None if self.chunks > 1 else self.text)
        kept = (self.title, self.source, self.metadata, self.tags, self.superseded_by)
        seen = (text, *kept, self.created_at, self.updated_at)
        written = json.dumps(seen, sort_keys=True, default=str)
        return blake2b(written.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    @property
    def heading(self) -> str | None:
        """Its title, and below that its section."""
        return " > ".join(filter(None, (self.title, self.section))) or None

    def current(self, head: "Document | None") -> bool:
        """`is_current` of this further part; `head` is the first."""
        first = None if head is None else (head.version, head.chunks)
        return is_current(self.version, self.chunk, self.writing, first)


class Passage(NamedTuple):
    """A contiguous quote of one part of a text, and the section that it stands in."""

    text: str
    part: Document
    section: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One text of the answer, how relevant it is, and the passages that say so, best first.

    `document` is the part of the first passage; `left` other parts of the text fit and are not
    shown. `supersedes` is the id of the text in whose place it stands. A list of the newest texts
    has no relevance. `why` has the numbers that made its place, as the tool gives them.
    """

    document: Document
    relevance: float | None
    score: float
    passages: tuple[Passage, ...] = ()
    why: Mapping[str, Any] | None = None
    also: tuple[Document, ...] = ()
    left: int = 0
    supersedes: str | None = None

    @property
    def passage(self) -> str:
        """The best passage; empty where none is shown."""
        return self.passages[0].text if self.passages else ""

    @property
    def snippet(self) -> str:
        """How the best passage, or else the text begins, on one line."""
        return " ".join((self.passage or self.document.text).split())[:SNIPPET]

    @property
    def title(self) -> str:
        """Its title and section, or else the snippet."""
        return self.document.heading or self.snippet


@dataclass(frozen=True, slots=True)
class Reranked:
    """The outcome of reranking: the best `pool` hits scored by `model`, or a reason why not.

    "skipped" means that it was not tried, "degraded" that it was and failed.
    """

    state: RerankState
    model: str | None = None
    pool: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The answer to one search. `notes` are sentences the caller should read.

    `advice` are those on how to get what is not shown. `searched` is the query with its
    corrections. `rerank` is None where it was not asked for. `more` further results were found;
    `weak`: even the best is hardly a match. `nothing` is the note that nothing was found.
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
    """A text to remember. `id` None means its content identifies it.

    What else is None stays as it was where the text replaces another.
    """

    text: str
    metadata: Mapping[str, Any] | None = None
    id: str | None = None
    title: str | None = None
    source: str | None = None
    tags: tuple[str, ...] | None = None
    created_at: datetime | None = None
    stored_by: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """One collection as `qdrant-collections` tells of it."""

    name: str
    points: int
    legs: tuple[str, ...]
    model: str | None
    updated_at: str | None = None
    note: str | None = None
    description: str | None = None
    writers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that encodes the queries of a collection; `fault` says why there is none.

    `certain` where the collection or a setting says so, and it is not merely the default.
    """

    model: str | None
    certain: bool = False
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The files of a folder that are wanted: patterns as in .gitignore, relative to the folder."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class SyncedFolder:
    """A folder, or a file, that is kept in step with a collection.

    `keep`: what is gone from it stays in the collection.
    """

    path: Path
    collection: str
    name: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keep: bool = False

    @property
    def selection(self) -> Selection:
        """The files that are wanted."""
        return Selection(self.include, self.exclude)

    @property
    def called(self) -> str:
        """Its name, or the one that it was given."""
        return self.name or self.path.name
