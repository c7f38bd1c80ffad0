"""The read path, one call per line. The only module that knows the order of the stages."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from mcp_server_qdrant.datatypes import (
    Hit,
    Priority,
    QueryVectors,
    SearchPage,
    SearchRequest,
    State,
    Status,
    Target,
    Terms,
)
from mcp_server_qdrant.errors import BackendError
from mcp_server_qdrant.search.algorithm import dense_share, narrowed
from mcp_server_qdrant.search.boost import boost
from mcp_server_qdrant.search.calibrate import ALPHA, bound, calibrate
from mcp_server_qdrant.search.decay import Recency, decay
from mcp_server_qdrant.search.embed import Encoders, embed
from mcp_server_qdrant.search.fuzzy import fuzzy
from mcp_server_qdrant.search.group import group
from mcp_server_qdrant.search.present import Presenter, Shares
from mcp_server_qdrant.search.retrieve import Engine, Plan, Retrieved, hydrate, retrieve, saturated
from mcp_server_qdrant.search.spelling import Speller
from mcp_server_qdrant.search.terms import TermWeights

SEVERITY: dict[State, int] = {"ok": 0, "degraded": 1, "skipped": 2, "timeout": 3, "failed": 4}

# What a search that has used up its time still gets to show what it found.
LAST_SECONDS = 1.0


class Catalog(Protocol):
    """What resolves names to targets."""

    async def resolve(self, wanted: Sequence[str] | None) -> list[Target]:
        """The targets of a search. Raises UnknownCollection."""

    def forget(self, name: str) -> None:
        """Look this collection up anew at its next use."""


class Queries(Engine, Protocol):
    """The engine, and what reads a caller's filter."""

    def prepare(self, raw: Mapping[str, Any] | None) -> Any:
        """The filter as the engine wants it. Raises InvalidFilter."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a search may return, take and do at once; seconds."""

    results: int = 10
    factor: int = 3
    deadline: float = 8.0
    concurrency: int = 64


@dataclass(frozen=True, slots=True)
class Preferences:
    """How hits are ranked unless the request says otherwise."""

    alpha: float = ALPHA
    correct: bool = True
    fuzzy: float = 0.0
    order: tuple[str, ...] = ()
    priority: Priority = "natural"
    recency: Recency = field(default_factory=lambda: Recency(0.0, 0.01, ()))


def this_hour() -> datetime:
    """The present to the hour: a request repeated at once gets the same answer, to the last bit."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


class Pipeline:
    """One search over many collections."""

    def __init__(
        self,
        catalog: Catalog,
        engine: Queries,
        encoders: Encoders,
        terms: TermWeights,
        speller: Speller,
        presenter: Presenter,
        limits: Limits,
        preferences: Preferences,
        now: Callable[[], datetime] = this_hour,
    ) -> None:
        self.catalog = catalog
        self.engine = engine
        self.encoders = encoders
        self.terms = terms
        self.speller = speller
        self.presenter = presenter
        self.limits = limits
        self.preferences = preferences
        self.now = now

    async def search(self, request: SearchRequest) -> SearchPage:
        """The answer to one request.

        Raises UnknownCollection, InvalidFilter, and BackendError where no collection answered.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + self.limits.deadline
        ranking = self._ranking(request)
        condition = self.engine.prepare(request.query_filter)
        resolved = await self.catalog.resolve(request.collections)
        targets = narrowed(resolved, request.algorithm)
        limit = request.limit or self.limits.results * min(len(targets) or 1, self.limits.factor)
        plan = Plan.of(
            len(targets), limit, self.limits.deadline, self.limits.concurrency, condition
        )
        if request.algorithm == "fuzzy":
            terms, vectors = await self._expanded(request, targets), QueryVectors({}, {})
        else:
            terms, vectors = await self._understood(request, resolved, targets)
        plan = replace(plan, deadline=max(end - clock(), LAST_SECONDS))
        found = await retrieve(self.engine, targets, vectors, terms, plan)
        plan = replace(plan, deadline=max(end - clock(), LAST_SECONDS))
        hits, late, more = await self._rank(found, terms, plan, limit, ranking)
        if more:
            plan = replace(plan.deeper(), deadline=max(end - clock(), LAST_SECONDS))
            found = found.updated(await retrieve(self.engine, more, vectors, terms, plan))
            hits, late, _ = await self._rank(found, terms, plan, limit, ranking)
        hits = decay(hits, ranking.recency, self.now())
        hits = fuzzy(hits, terms.query, ranking.fuzzy, self.presenter.document)
        statuses = self._settle([*found.statuses.values(), *late])
        shares = Shares(ranking.alpha, bound(terms))
        return self.presenter.present(hits, request, limit, statuses, terms, shares)

    async def _understood(
        self, request: SearchRequest, resolved: Sequence[Target], targets: Sequence[Target]
    ) -> tuple[Terms, QueryVectors]:
        """The query for both legs, what is misspelled corrected; only then it is embedded again.

        Semantic search asks the collections for their words too, only for the spelling's sake.
        """
        correct = self.preferences.correct if request.correct is None else request.correct
        asked = resolved if correct else targets
        terms, vectors = await asyncio.gather(
            self.terms.of(request.query, asked),  # probes, global idf
            embed(request.query, targets, self.encoders),  # once per model
        )
        if correct and terms.unknown:
            query, corrections = await self.speller.correct(terms, asked)
            better = await self.terms.of(query, asked) if corrections else terms
            if len(better.unknown) < len(terms.unknown):
                terms = replace(better, corrections=corrections)
                vectors = await embed(query, targets, self.encoders)
        if request.algorithm == "semantic":
            terms = Terms(terms.query, {}, {}, corrections=terms.corrections)
        return terms, vectors

    async def _expanded(self, request: SearchRequest, targets: Sequence[Target]) -> Terms:
        """The words of the query and those spelled almost like them."""
        variants, unread = await self.speller.expand(request.query, targets)
        terms = await self.terms.of(request.query, targets, variants)
        return replace(terms, corrections=self.speller.replaced(terms, variants), unread=unread)

    def _ranking(self, request: SearchRequest) -> Preferences:
        """The server's preferences with what this request asks for instead."""
        usual = self.preferences
        alpha = dense_share(request.semantic_weight, request.keyword_weight, request.fuzzy_weight)
        likeness = usual.fuzzy if request.algorithm in ("hybrid", "fuzzy") else 0.0
        weight = usual.recency.weight if request.recency is None else request.recency
        return replace(
            usual,
            alpha=usual.alpha if alpha is None else alpha,
            fuzzy=likeness if request.fuzzy_weight is None else request.fuzzy_weight,
            priority=request.priority or usual.priority,
            recency=replace(usual.recency, weight=weight),
        )

    async def _rank(
        self, found: Retrieved, terms: Terms, plan: Plan, limit: int, ranking: Preferences
    ) -> tuple[list[Hit], list[Status], list[Target]]:
        """The hits, which collections failed meanwhile, and which have more to give."""
        ranked = calibrate(list(found.found.values()), terms, ranking.alpha)
        ranked = boost(ranked, ranking.order, ranking.priority)
        pool, late = await hydrate(self.engine, found.found, ranked[: plan.pool], plan.deadline)
        hits = group(pool)
        return hits, late, saturated(found.found, ranked, hits, plan, limit)

    def _settle(self, statuses: Iterable[Status]) -> list[Status]:
        """One status per collection, the worst; failed collections are looked up anew next time."""
        worst: dict[str, Status] = {}
        for status in statuses:
            known = worst.get(status.collection)
            if known is None or SEVERITY[status.state] > SEVERITY[known.state]:
                worst[status.collection] = status
            if status.state == "failed":
                self.catalog.forget(status.collection)
        broken = [s for s in worst.values() if s.state in ("failed", "timeout", "skipped")]
        if worst and len(broken) == len(worst):
            raise BackendError(_all_failed(broken))
        return list(worst.values())


def _all_failed(statuses: Sequence[Status]) -> str:
    reasons = {status.reason for status in statuses}
    if len(reasons) == 1:
        names = ", ".join(status.collection for status in statuses[:5])
        return f"No collection could be searched ({names}): {reasons.pop()}"
    each = "; ".join(f"{status.collection}: {status.reason}" for status in statuses[:5])
    return f"No collection could be searched: {each}"
