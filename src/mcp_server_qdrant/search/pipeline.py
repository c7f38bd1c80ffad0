"""The read path, one call per line. The only module that knows the order of the stages."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mcp_server_qdrant.datatypes import (
    Hit,
    QueryVectors,
    SearchPage,
    SearchRequest,
    Status,
    Target,
    Terms,
)
from mcp_server_qdrant.errors import BackendError
from mcp_server_qdrant.search.calibrate import calibrate
from mcp_server_qdrant.search.embed import Encoders, embed
from mcp_server_qdrant.search.group import group
from mcp_server_qdrant.search.present import Presenter
from mcp_server_qdrant.search.retrieve import Engine, Plan, hydrate, retrieve
from mcp_server_qdrant.search.terms import TermWeights

DEPTH = 30
SPARE = 10
POOL = 60
DEEPER = 4


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


class Pipeline:
    """One search over many collections."""

    def __init__(
        self,
        catalog: Catalog,
        engine: Queries,
        encoders: Encoders,
        terms: TermWeights,
        presenter: Presenter,
        limits: Limits,
    ) -> None:
        self.catalog = catalog
        self.engine = engine
        self.encoders = encoders
        self.terms = terms
        self.presenter = presenter
        self.limits = limits

    async def search(self, request: SearchRequest) -> SearchPage:
        """The answer to one request.

        Raises UnknownCollection, InvalidFilter, and BackendError where no collection answered.
        """
        condition = self.engine.prepare(request.query_filter)
        targets = await self.catalog.resolve(request.collections)
        limit = request.limit or self.limits.results * min(len(targets) or 1, self.limits.factor)
        plan = Plan(
            max(DEPTH, limit + SPARE), self.limits.deadline, self.limits.concurrency, condition
        )
        terms, vectors = await asyncio.gather(
            self.terms.of(request.query, targets),  # probes, global idf
            embed(request.query, targets, self.encoders),  # once per model
        )
        hits, statuses, more = await self._rank(targets, vectors, terms, plan, limit)
        if more:
            plan = replace(plan, depth=plan.depth * DEEPER)
            hits, statuses, _ = await self._rank(targets, vectors, terms, plan, limit)
        return self.presenter.present(hits, request, limit=limit, statuses=statuses, terms=terms)

    async def _rank(
        self,
        targets: Sequence[Target],
        vectors: QueryVectors,
        terms: Terms,
        plan: Plan,
        limit: int,
    ) -> tuple[list[Hit], list[Status], bool]:
        """The hits, each collection's state, and whether chunks of few documents hide others."""
        found = await retrieve(self.engine, targets, vectors, terms, plan)
        ranked = calibrate(found.found, terms, most=max(POOL, plan.depth))
        pool, late = await hydrate(self.engine, targets, ranked)
        hits = group(pool)
        hidden = len(hits) < min(limit, len(pool)) and found.cut_off(plan.depth)
        return hits, self._settle([*found.statuses, *late]), hidden

    def _settle(self, statuses: Iterable[Status]) -> list[Status]:
        """One status per collection, the worst; failed collections are looked up anew next time."""
        worst: dict[str, Status] = {}
        for status in statuses:
            if status.collection not in worst or worst[status.collection].state == "ok":
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
