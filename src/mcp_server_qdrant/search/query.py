"""A search on its way: the request as understood, what was found, and the hits in their order.

What a search makes by the hundred is a named tuple: made in a quarter of a dataclass's time.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from mcp_server_qdrant.core.datatypes import (
    Dense,
    Document,
    Payload,
    PointId,
    Reranked,
    Scored,
    Status,
    Target,
)
from mcp_server_qdrant.core.dates import Period
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.search.texts import Reader, Terms, Words

# Candidates: the same for all limits up to REACH, so that a small one shows the first results of a
# large one. Of many collections each gives fewer.
CANDIDATES = 180  # of all collections together
DEPTH = 60  # of one collection at most
SHALLOW = 10  # and at least
POOL = 60  # the best of all: their texts are ranked
PASSAGES = 6  # of one text at most
REACH = 20  # the limit up to which that is enough
DEEPER = 4  # times as many where a page is short
LAST_SECONDS = 1.0
ROOM = 600  # tokens of a page


@dataclass(frozen=True, slots=True)
class TagMatch:
    """The tags of one collection that a query names.

    `values` (payload key, value) as they are stored, `names` as they are compared; `boost` is what
    the match counts.
    """

    values: tuple[tuple[str, str], ...]
    names: frozenset[str]
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """One query vector per model; `failures` maps a model to why it has none."""

    dense: Mapping[str, Dense]
    failures: Mapping[str, str]


class Hit(NamedTuple):
    """One point on its way to the answer.

    `relevance` in [0, 1] compares across collections and queries; `score`, which orders, is
    relevance times the factors. `factors` records what each ranking step did, `gains` what was
    added to the relevance; `tags` are those of the hit that the query names. `reranked`, in [0, 1],
    stands in for relevance where a reranker read the text. `reading` makes a document of the
    payload, once it is fetched: few are looked at. `also`: its copies; `parts`: what else was found
    of its document, best first; `supersedes`: the id of the text in whose place it stands.
    """

    collection: str
    id: PointId
    relevance: float
    score: float
    rrf: float
    dense: float | None
    sparse: float | None
    payload: Payload | None = None
    reading: Callable[[], Document] | None = None
    factors: tuple[tuple[str, float], ...] = ()
    gains: tuple[tuple[str, float], ...] = ()
    tags: tuple[str, ...] = ()
    reranked: float | None = None
    also: tuple["Hit", ...] = ()
    parts: tuple["Hit", ...] = ()
    supersedes: str | None = None

    @property
    def document(self) -> Document:
        """What its payload says, as a document."""
        assert self.reading is not None
        return self.reading()

    @property
    def own(self) -> str | None:
        """The id of its document, which need not be read; None for points of other tools."""
        doc = (self.payload or {}).get("doc")
        value = doc.get("id") if isinstance(doc, dict) else None
        return value if isinstance(value, str) else None

    def rescored(self, step: str, factor: float) -> "Hit":
        """A copy whose score is multiplied by `factor`, with the step recorded."""
        return self._replace(score=self.score * factor, factors=(*self.factors, (step, factor)))

    def lifted(self, step: str, relevance: float) -> "Hit":
        """A copy that is more relevant, by what is recorded as the step's gain."""
        return self._replace(
            relevance=relevance,
            score=relevance * math.prod(factor for _, factor in self.factors),
            gains=(*self.gains, (step, relevance - self.relevance)),
        )


def by_score(hits: Iterable[Hit]) -> list[Hit]:
    """Best first; ties by collection and id, so that the same request gives the same order."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.collection, str(hit.id)))


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's rules of ranking, which no request changes.

    `alpha` is the dense leg's share of the relevance, where a request names none; `order` are
    preferred collections, the most preferred first; `decay` is per day.
    """

    alpha: float
    order: tuple[str, ...] = ()
    decay: float = 0.01
    time_fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """A request as understood: all that a search depends on.

    `request` has the server's preference wherever the caller gave none. `alpha` is the dense leg's
    share of the relevance, `likeness` what near spelling adds at most; `now` is the present for
    the age of texts, `left` the seconds that the search still has; `exact` what must be found as it
    is written. `condition` is the filter in the engine's form, `period` that of the dates; `tags`
    are those that the query names, by collection.
    `depth` candidates of each collection are fetched, and the texts of the `pool` best are ranked.
    Of one text at most so many `passages` are shown. `reader(text)` is the tokeniser for the
    language of that text.
    """

    request: SearchRequest
    rules: Rules
    targets: Sequence[Target]
    limit: int
    alpha: float
    likeness: float
    terms: Terms
    vectors: QueryVectors
    depth: int
    pool: int
    now: datetime
    left: Callable[[], float]
    reader: Reader
    condition: Any = None
    period: Period | None = None
    exact: Exact = field(default_factory=Exact)
    tags: Mapping[str, TagMatch] = field(default_factory=dict)
    passages: int = PASSAGES

    @cached_property
    def words(self) -> Words:
        """The words of the query, to be found in texts."""
        return Words(self.terms, self.reader)

    def seconds(self) -> float:
        """The time that is left; a second at least, to show what was found."""
        return max(self.left(), LAST_SECONDS)

    def deeper(self, condition: Any) -> "Query":
        """The same with more candidates, under that condition."""
        return replace(
            self, depth=self.depth * DEEPER, pool=self.pool * DEEPER, condition=condition
        )


def depth_of(collections: int, limit: int) -> tuple[int, int]:
    """The candidates of each of so many collections, and how many of all are ranked as texts."""
    times = max(-(-limit // REACH), 1)
    depth = max(SHALLOW, min(DEPTH, -(-CANDIDATES // max(collections, 1))))
    return depth * times, POOL * times


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The best candidates with their payloads, and what each collection gave.

    `statuses` has two of a collection that failed while payloads were fetched. `replaced` are the
    parts that were left out, as their text was replaced. `cut`: there were more candidates.
    """

    hits: Sequence[Hit]
    found: Mapping[str, Scored]
    statuses: Sequence[Status]
    replaced: Sequence[Document] = ()
    cut: bool = False

    def updated(self, deeper: "Retrieved") -> "Retrieved":
        """What a deeper look found; collections that failed in it keep what they gave before."""
        kept = [hit for hit in self.hits if hit.collection not in deeper.found]
        before = [one for one in self.statuses if one.collection not in deeper.found]
        return replace(
            deeper,
            hits=by_score([*deeper.hits, *kept]),
            found={**self.found, **deeper.found},
            statuses=[*before, *(one for one in deeper.statuses if one.collection in deeper.found)],
        )


@dataclass(frozen=True, slots=True)
class Ranked:
    """Hits in their order. `best` is the most relevant one before a threshold."""

    hits: list[Hit]
    best: Hit | None
    reranked: Reranked | None
