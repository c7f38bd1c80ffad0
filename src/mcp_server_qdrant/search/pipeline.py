"""The read path, one call per line. The only module that knows the order of the stages."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mcp_server_qdrant.datatypes import (
    Hit,
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
from mcp_server_qdrant.search.retrieve import Engine, Plan, Retrieved, hydrate, retrieve, saturated
from mcp_server_qdrant.search.terms import TermWeights

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
        plan = Plan.of(
            len(targets), limit, self.limits.deadline, self.limits.concurrency, condition
        )
        terms, vectors = await asyncio.gather(
            self.terms.of(request.query, targets),  # probes, global idf
            embed(request.query, targets, self.encoders),  # once per model
        )
        clock = asyncio.get_running_loop().time
        end = clock() + plan.deadline
        found = await retrieve(self.engine, targets, vectors, terms, plan)
        plan = replace(plan, deadline=max(end - clock(), LAST_SECONDS))
        hits, late, more = await self._rank(found, terms, plan, limit)
        if more:
            plan = replace(plan.deeper(), deadline=max(end - clock(), LAST_SECONDS))
            found = found.updated(await retrieve(self.engine, more, vectors, terms, plan))
            hits, late, _ = await self._rank(found, terms, plan, limit)
        statuses = self._settle([*found.statuses.values(), *late])
        return self.presenter.present(hits, request, limit=limit, statuses=statuses, terms=terms)

    async def _rank(
        self, found: Retrieved, terms: Terms, plan: Plan, limit: int
    ) -> tuple[list[Hit], list[Status], list[Target]]:
        """The hits, which collections failed meanwhile, and which have more to give."""
        ranked = calibrate(list(found.found.values()), terms)
        pool, late = await hydrate(self.engine, found.found, ranked[: plan.pool], plan.deadline)
        hits = group(pool)
        return hits, late, saturated(found.found, ranked, hits, plan, limit)

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
