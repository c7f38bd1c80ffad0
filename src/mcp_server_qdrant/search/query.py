"""A search on its way: the request as understood, and what was found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mcp_server_qdrant.core.datatypes import (
    Document,
    Found,
    Hit,
    Payload,
    PointId,
    QueryVectors,
    Reranked,
    Status,
    TagMatch,
    Target,
    Terms,
)
from mcp_server_qdrant.core.dates import Listed, Period
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.search.algorithm import Steps

# The same whatever the limit, so that a small one shows the first results of a large one.
CANDIDATES = 330  # of all collections together
DEPTH = 110  # of one collection at most
SHALLOW = 12  # and at least
POOL = 30  # hits that are read at first
DEEPER = 4
LAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's rules of ranking, which no request changes.

    `order` are preferred collections, the most preferred first; `decay` is per day.
    """

    adaptive: Steps
    order: tuple[str, ...] = ()
    decay: float = 0.01
    time_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The extent of a search: how many candidates are fetched, how, and until when.

    `depth` candidates of each collection; the payloads of the `pool` best of all are read, and of
    more where these could rank with the page. `deadline` in seconds for all collections together.
    `tags` are those that the query names, by collection; `weights` (dense, sparse) those of the
    fusion; `period` that of the dates.
    """

    depth: int
    pool: int
    deadline: float
    condition: Any = None
    tags: Mapping[str, TagMatch] = field(default_factory=dict)
    weights: tuple[float, float] | None = None
    period: Period | None = None

    @classmethod
    def of(cls, collections: int, deadline: float, condition: Any) -> "Plan":
        """The plan for a search over so many collections.

        Few candidates of each are enough to begin with: those that may have more to give are asked
        again (`ranking.unfinished`).
        """
        depth = max(SHALLOW, min(DEPTH, -(-CANDIDATES // max(collections, 1))))
        return cls(depth, POOL, deadline, condition)

    def fusion(self, collection: str) -> tuple[float, float, float] | None:
        """The weights of the legs (dense, sparse, tags) there; None where all count alike."""
        match = self.tags.get(collection)
        boost = match.boost if match else 1.0
        if self.weights is None and boost == 1.0:
            return None
        return (*(self.weights or (1.0, 1.0)), boost)

    def within(self, seconds: float) -> "Plan":
        """The plan with the time that is left; a second at least, to show what was found."""
        return replace(self, deadline=max(seconds, LAST_SECONDS))

    def deeper(self, condition: Any) -> "Plan":
        """The plan with more candidates, under that condition."""
        return replace(self, depth=self.depth * DEEPER, condition=condition)

    def under(self, condition: Any) -> "Plan":
        """The plan with as many candidates, under that condition."""
        return replace(self, condition=condition)


@dataclass(frozen=True, slots=True)
class Query:
    """A request as understood.

    `request` has the server's preference wherever the caller gave none. `alpha` is the dense leg's
    share of the relevance, `likeness` what near spelling adds at most; `now` is the present for
    the age of texts, `left` the seconds that the search still has; `exact` what must be found as it
    is written; `sketches` what is known of the collections, where there are many.
    """

    request: SearchRequest
    rules: Rules
    targets: Sequence[Target]
    limit: int
    alpha: float
    likeness: float
    terms: Terms
    vectors: QueryVectors
    plan: Plan
    now: datetime
    left: Callable[[], float]
    exact: Exact = field(default_factory=Exact)
    sketches: Mapping[str, Any] = field(default_factory=dict)

    def timely(self) -> Plan:
        """The plan within the time that is left."""
        return self.plan.within(self.left())


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Candidates and status of each collection, by its name; and the payloads read so far."""

    found: Mapping[str, Found]
    statuses: Mapping[str, Status]
    payloads: dict[tuple[str, PointId], Payload] = field(default_factory=dict)

    def joined(self, other: "Retrieved") -> "Retrieved":
        """With the answers of other collections."""
        statuses = {**self.statuses, **other.statuses}
        return Retrieved({**self.found, **other.found}, statuses, self.payloads)

    def updated(self, other: "Retrieved") -> "Retrieved":
        """With the answers of those that were asked again; a failure then loses nothing."""
        again = {name: other.statuses[name] for name in other.found}
        found = {**self.found, **other.found}
        return Retrieved(found, {**self.statuses, **again}, self.payloads)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Hits in their order, and where they come from.

    `late` are the statuses of collections that failed while payloads were fetched; `more` the
    targets that may have better hits; `replaced` the parts left out, as their text was replaced.
    `best` is the most relevant hit before a threshold.
    """

    hits: list[Hit]
    retrieved: Retrieved
    late: Sequence[Status] = ()
    more: Sequence[Target] = ()
    replaced: Sequence[Document] = ()
    best: Hit | None = None
    reranked: Reranked | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The newest texts: documents in their order, those without a date and superseded ones last."""

    documents: Sequence[Document]
    listed: Mapping[str, Listed]
    statuses: Sequence[Status]
