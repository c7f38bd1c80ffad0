"""A search on its way: the request as understood, and what was found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from mcp_server_qdrant.core.datatypes import (
    Document,
    Hit,
    QueryVectors,
    Reranked,
    Scored,
    Status,
    TagMatch,
    Target,
    Terms,
    by_score,
)
from mcp_server_qdrant.core.dates import Period
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.search.texts import Reader, Words

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
    Of one text at most so many `passages` are shown. `reader` gives what gives the BM25 terms of
    texts like one.
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
        """What is asked, to be found in texts."""
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

    `late` are the statuses of collections that failed while payloads were fetched, `replaced` the
    parts that were left out, as their text was replaced. `cut`: there were more candidates.
    """

    hits: Sequence[Hit]
    found: Mapping[str, Scored]
    statuses: Mapping[str, Status]
    late: Sequence[Status] = ()
    replaced: Sequence[Document] = ()
    cut: bool = False

    def updated(self, deeper: "Retrieved") -> "Retrieved":
        """What a deeper look found; collections that failed in it keep what they gave before."""
        kept = [hit for hit in self.hits if hit.collection not in deeper.found]
        statuses = {name: deeper.statuses[name] for name in deeper.found}
        return replace(
            deeper,
            hits=by_score([*deeper.hits, *kept]),
            found={**self.found, **deeper.found},
            statuses={**self.statuses, **statuses},
        )


@dataclass(frozen=True, slots=True)
class Ranked:
    """Hits in their order. `best` is the most relevant one before a threshold."""

    hits: list[Hit]
    best: Hit | None = None
    reranked: Reranked | None = None
