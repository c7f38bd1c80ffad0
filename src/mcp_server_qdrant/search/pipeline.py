"""The read path, one call per line. The only module that knows the order of the stages."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import ParamSpec, TypeVar

from mcp_server_qdrant.core.datatypes import (
    Document,
    Hit,
    QueryVectors,
    Reranked,
    SearchPage,
    State,
    Status,
    TagMatch,
    Target,
    Terms,
)
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.find import Preferences, SearchRequest
from mcp_server_qdrant.core.notation import called, every
from mcp_server_qdrant.core.telemetry import Phase, Recorder, Unrecorded
from mcp_server_qdrant.search.algorithm import DenseShare, dense_share, fusion_weights, narrowed
from mcp_server_qdrant.search.embed import Encode, embed
from mcp_server_qdrant.search.engine import Engine
from mcp_server_qdrant.search.explain import ranks
from mcp_server_qdrant.search.payloads import completed, current, hydrate, payloads_of
from mcp_server_qdrant.search.present import Presenter, Shares, worthy
from mcp_server_qdrant.search.rerank import Rerank
from mcp_server_qdrant.search.retrieve import (
    LAST_SECONDS,
    Plan,
    Retrieved,
    retrieve,
    saturated,
)
from mcp_server_qdrant.search.steps.boost import boost
from mcp_server_qdrant.search.steps.calibrate import bound, calibrate
from mcp_server_qdrant.search.steps.decay import Recency, decay
from mcp_server_qdrant.search.steps.fold import fold
from mcp_server_qdrant.search.steps.fuzzy import fuzzy
from mcp_server_qdrant.search.steps.group import group
from mcp_server_qdrant.search.steps.spread import spread
from mcp_server_qdrant.search.steps.tags import lift_tags
from mcp_server_qdrant.search.steps.titles import lift_titles
from mcp_server_qdrant.search.words.spelling import Speller
from mcp_server_qdrant.search.words.tags import TagIndex
from mcp_server_qdrant.search.words.terms import TermWeights

P = ParamSpec("P")
T = TypeVar("T")

SEVERITY: dict[State, int] = {"ok": 0, "degraded": 1, "skipped": 2, "timeout": 3, "failed": 4}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a search may return, take and do at once; seconds."""

    results: int = 10
    factor: int = 3
    deadline: float = 8.0
    concurrency: int = 64


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator alone says about the ranking. `decay` is per day."""

    adaptive: DenseShare
    order: tuple[str, ...] = ()
    decay: float = 0.01
    time_fields: tuple[str, ...] = ()
    fold: bool = True


@dataclass(frozen=True, slots=True)
class Ranking:
    """How the hits of one search are ranked."""

    alpha: float
    fuzzy_boost: float
    recency: Recency
    request: SearchRequest


def this_hour() -> datetime:
    """The present to the hour: a request repeated at once gets the same answer, to the last bit."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


class Pipeline:
    """One search over many collections.

    `resolve` gives the targets of a search, `forget` makes the next search look a collection up
    anew. `recorder` measures the phases; `leftovers` takes the parts that were found and belong to
    no present version of their text.
    """

    def __init__(
        self,
        resolve: Callable[[Sequence[str] | None], Awaitable[list[Target]]],
        forget: Callable[[str], None],
        engine: Engine,
        encode: Encode,
        terms: TermWeights,
        speller: Speller,
        tags: TagIndex,
        title_factor: float,
        presenter: Presenter,
        limits: Limits,
        preferences: Preferences,
        rules: Rules,
        rerank: Rerank,
        now: Callable[[], datetime] = this_hour,
    ) -> None:
        self.resolve = resolve
        self.forget = forget
        self.engine = engine
        self.encode = encode
        self.terms = terms
        self.speller = speller
        self.tags = tags
        self.title_factor = title_factor
        self.presenter = presenter
        self.limits = limits
        self.preferences = preferences
        self.rules = rules
        self.rerank = rerank
        self.now = now
        self.recorder: Recorder = Unrecorded()
        self.leftovers: Callable[[Sequence[Document]], None] = lambda _: None
        self._reasons: dict[str, str | None] = {}  # of collections that were degraded

    async def search(self, request: SearchRequest) -> SearchPage:
        """The answer to one request.

        Raises UnknownCollection, InvalidFilter, and BackendError where no collection answered.
        """
        left = _countdown(self.limits.deadline)
        share = dense_share(request.semantic_weight, request.keyword_weight)
        condition = self.engine.prepare(request.query_filter)
        resolved = await self.resolve(request.collections)
        targets = narrowed(resolved, request.algorithm)
        ranking = self._ranking(request, share, targets)
        limit = request.limit or self.limits.results * min(len(targets) or 1, self.limits.factor)
        plan = Plan.of(
            len(targets), limit, self.limits.deadline, self.limits.concurrency, condition
        )
        if ranking.request.rerank:
            plan = replace(plan, pool=max(plan.pool, self.rerank.bounds.pool))
        terms, vectors, tags = await self._understood(request, ranking, resolved, targets)
        plan = replace(plan, tags=tags, weights=fusion_weights(share)).within(left())
        timed = self._timed
        found = await timed("retrieve", retrieve, self.engine, targets, vectors, terms, plan)
        ranked = timed("rank", self._rank, found, terms, plan.within(left()), limit, ranking)
        hits, late, more, replaced = await ranked
        if more:
            unlike = {one.version for one in replaced if one.version}
            plan = plan.deeper(self.engine.without(condition, unlike)).within(left())
            again = await timed("retrieve", retrieve, self.engine, more, vectors, terms, plan)
            found = found.updated(again)
            ranked = timed("rank", self._rank, found, terms, plan.within(left()), limit, ranking)
            hits, late, *_ = await ranked
        hits, reranked = await self._reranked(hits, terms, ranking, left())
        if reranked is None or reranked.state != "applied":  # who read the texts knows better
            shown = len(hits) if ranking.request.diversity > 0 else limit
            hits = fuzzy(hits, terms.query, ranking.fuzzy_boost, self.presenter.document, shown)
        if ranking.request.diversity > 0:
            hits = spread(worthy(hits, request), ranking.request.diversity, self.presenter.document)
        hits = await self._completed(hits, request, limit, found, left())
        statuses = self._settle([*found.statuses.values(), *late])
        shares = Shares(ranking.alpha, bound(terms))
        if request.explain:
            shares = replace(
                shares, ranks=ranks(found.found.values()), fusion=plan.fusions(found.found)
            )
        return self.presenter.present(hits, request, limit, statuses, terms, shares, reranked)

    async def _understood(
        self,
        request: SearchRequest,
        ranking: Ranking,
        resolved: Sequence[Target],
        targets: Sequence[Target],
    ) -> tuple[Terms, QueryVectors, Mapping[str, TagMatch]]:
        """The query for each leg, what is misspelled corrected; only then it is embedded again.

        Semantic search asks the collections for their words too, only for the spelling's sake.
        """
        tagged = targets if ranking.alpha < 1 else ()
        if request.algorithm == "fuzzy":
            terms, tags = await asyncio.gather(
                self._expanded(request, targets), self.tags.of(request.query, tagged)
            )
            return terms, QueryVectors({}, {}), tags
        asked = resolved if ranking.request.correct else targets
        terms, vectors, tags = await asyncio.gather(
            self._timed("probe", self.terms.of, request.query, asked),  # probes, global idf
            self._timed("embed", embed, request.query, targets, self.encode),  # once per model
            self.tags.of(request.query, tagged),
        )
        suspect = terms.unknown - self.tags.terms(tags)
        if ranking.request.correct and suspect:
            query, corrections = await self.speller.correct(replace(terms, unknown=suspect), asked)
            if corrections:
                better = await self._timed("probe", self.terms.of, query, asked)
            else:
                better = terms
            if len(better.unknown) < len(terms.unknown):
                terms = replace(better, corrections=corrections)
                vectors, tags = await asyncio.gather(
                    self._timed("embed", embed, query, targets, self.encode),
                    self.tags.of(query, tagged),
                )
        if request.algorithm == "semantic":
            terms = Terms(terms.query, {}, {}, corrections=terms.corrections)
        return terms, vectors, tags

    async def _timed(
        self, phase: Phase, work: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        with self.recorder.phase(phase):
            return await work(*args, **kwargs)

    async def _expanded(self, request: SearchRequest, targets: Sequence[Target]) -> Terms:
        """The words of the query and those spelled almost like them."""
        variants, unread = await self.speller.expand(request.query, targets)
        terms = await self._timed("probe", self.terms.of, request.query, targets, variants)
        return replace(terms, corrections=self.speller.replaced(terms, variants), unread=unread)

    def _ranking(
        self, request: SearchRequest, share: float | None, targets: Sequence[Target]
    ) -> Ranking:
        """The server's preferences with what this request asks for instead."""
        chosen = request.over(self.preferences)
        points = sum(t.points for t in targets if t.dense or t.sparse)
        alpha = self.rules.adaptive.at(points) if share is None else share
        boosted = "fuzzy_boost" in request.model_fields_set
        return Ranking(
            alpha=1.0 if request.algorithm == "semantic" else alpha,
            fuzzy_boost=chosen.fuzzy_boost
            if boosted or request.algorithm in ("hybrid", "fuzzy")
            else 0.0,
            recency=Recency(chosen.recency_weight, self.rules.decay, self.rules.time_fields),
            request=chosen,
        )

    async def _rank(
        self, found: Retrieved, terms: Terms, plan: Plan, limit: int, ranking: Ranking
    ) -> tuple[list[Hit], list[Status], list[Target], list[Document]]:
        """The hits, which collections failed meanwhile, and which have more to give.

        And the parts that are left out, because their text was replaced.
        """
        ranked = calibrate(list(found.found.values()), terms, ranking.alpha)
        ranked = lift_tags(ranked, plan.tags, terms, ranking.alpha, self.presenter.tokens)
        ranked = boost(ranked, self.rules.order, ranking.request.priority)
        size = plan.pool
        firsts = partial(
            payloads_of, self.engine, found.found, deadline=plan.deadline, fields=["doc"]
        )
        while True:
            pool, late = await hydrate(self.engine, found.found, ranked[:size], plan.deadline)
            pool, replaced, failed = await current(pool, self.presenter.document, firsts)
            late += failed
            hits = lift_titles(
                pool,
                terms,
                ranking.alpha,
                self.title_factor,
                self.presenter.title,
                self.presenter.tokens,
            )
            hits = group(hits)
            shown = decay(hits, ranking.recency, self.now())
            if self.rules.fold:
                shown = fold(shown, self.presenter.document)
            if len(shown) >= limit or size >= len(ranked) or late:
                break
            size *= 2  # parts and copies of a few texts fill the pool
        kept = {(hit.collection, hit.id) for hit in shown}
        undecayed = [hit for hit in hits if (hit.collection, hit.id) in kept]
        more = saturated(found.found, ranked, undecayed, plan, limit)
        if replaced:
            gave = {one.collection for one in replaced} - {target.collection for target in more}
            more += [found.found[name].target for name in sorted(gave)]
            self.leftovers(replaced)
        return shown, late, more, replaced

    async def _reranked(
        self, hits: list[Hit], terms: Terms, ranking: Ranking, left: float
    ) -> tuple[list[Hit], Reranked | None]:
        if not ranking.request.rerank:
            return hits, None
        read = partial(self.presenter.gist, terms)
        return await self._timed("rerank", self.rerank.apply, hits, terms.query, read, left)

    async def _completed(
        self, hits: list[Hit], request: SearchRequest, limit: int, found: Retrieved, left: float
    ) -> list[Hit]:
        """The hits, with all of the payloads of which more is shown than a passage."""
        full = request.mode == "full"
        shown = worthy(hits, request)[:limit]
        told = [hit for hit in shown if full or self.presenter.document(hit).textless]
        whole = await completed(self.engine, found.found, told, max(left, LAST_SECONDS))
        if not whole:
            return hits
        return [
            hit._replace(payload=whole.get((hit.collection, hit.id), hit.payload)) for hit in hits
        ]

    def _settle(self, statuses: Iterable[Status]) -> list[Status]:
        """One status per collection, the worst.

        A collection that failed, or is worse or better off now, is looked up anew next time.
        """
        worst: dict[str, Status] = {}
        for status in statuses:
            known = worst.get(status.collection)
            if known is None or SEVERITY[status.state] > SEVERITY[known.state]:
                worst[status.collection] = status
        for name, status in worst.items():
            reason = status.reason if status.state == "degraded" else None
            if status.state == "failed" or reason != self._reasons.get(name):
                self.forget(name)
            self._reasons[name] = reason
        self.recorder.fared(worst.values())
        broken = [s for s in worst.values() if s.state in ("failed", "timeout", "skipped")]
        if worst and len(broken) == len(worst):
            raise BackendError(_all_failed(broken))
        return list(worst.values())


def _countdown(seconds: float) -> Callable[[], float]:
    """What is left of so many seconds."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    return lambda: end - clock()


def _all_failed(statuses: Sequence[Status]) -> str:
    reasons = {status.reason for status in statuses}
    if len(reasons) == 1:
        names = every(status.collection for status in statuses[:5])
        return f"No collection could be searched ({names}): {reasons.pop()}"
    each = "; ".join(f"{called(status.collection)}: {status.reason}" for status in statuses[:5])
    return f"No collection could be searched: {each}"
