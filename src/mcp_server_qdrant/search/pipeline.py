"""The read path: understand -> retrieve and rank -> reread -> present."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mcp_server_qdrant.core.datatypes import (
    Document,
    Hit,
    SearchPage,
    State,
    Status,
    Target,
)
from mcp_server_qdrant.core.deadline import within
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import called, every
from mcp_server_qdrant.core.telemetry import Recorder
from mcp_server_qdrant.search.elsewhere import Elsewhere
from mcp_server_qdrant.search.engine import Engine
from mcp_server_qdrant.search.listing import Lister, Newest
from mcp_server_qdrant.search.passage import Words
from mcp_server_qdrant.search.payloads import completed, current, hydrate, payloads_of
from mcp_server_qdrant.search.period import period_of
from mcp_server_qdrant.search.present import listing_page, present, worth
from mcp_server_qdrant.search.query import LAST_SECONDS, Plan, Query, Ranked, Retrieved
from mcp_server_qdrant.search.ranking import candidates, least, rank, unfinished, worth_reading
from mcp_server_qdrant.search.rerank import Rerank
from mcp_server_qdrant.search.retrieve import retrieve
from mcp_server_qdrant.search.sketches.waves import waves
from mcp_server_qdrant.search.texts import Texts
from mcp_server_qdrant.search.understand import Understanding

ROUNDS = 2  # in which collections may be asked for more candidates
MOST_ROUNDS = 8  # while parts of replaced texts are left out, which hide others
SEVERITY: dict[State, int] = {"ok": 0, "degraded": 1, "skipped": 2, "timeout": 3, "failed": 4}


@dataclass(eq=False)
class Pipeline:
    """One search over many collections.

    `forget` makes the next search look a collection up anew; `check_keys` refuses a filter by a
    key that no text has. `leftovers` takes the parts that were found and belong to no present
    version of their text.
    """

    understanding: Understanding
    engine: Engine
    texts: Texts
    rerank: Rerank
    newest: Newest
    forget: Callable[[str], None]
    check_keys: Callable[[Mapping[str, Any], Sequence[Target]], Awaitable[None]]
    leftovers: Callable[[Sequence[Document]], None]
    _reasons: dict[str, str | None] = field(default_factory=dict)  # of degraded collections

    @property
    def recorder(self) -> Recorder:
        """What measures the phases."""
        return self.understanding.recorder

    async def search(self, request: SearchRequest) -> SearchPage:
        """The answer to one request.

        Raises UnknownCollection, InvalidFilter, and BackendError where no collection answered.
        """
        if not request.query.strip():
            return await self._list(request)
        query = await self.understanding.of(request)  # targets, terms and global idf, vectors, tags
        ranked = await self._retrieve_and_rank(query)  # asks on while the page could still change
        ranked = await self._reread(ranked, query)  # by the reranker, or by spelling
        ranked = await self._complete(ranked, query)  # payloads that are shown in full
        if request.query_filter and not ranked.hits:
            await self._doubt(request.query_filter, query.targets, query.left())
        statuses = self._settle([*ranked.retrieved.statuses.values(), *ranked.late])
        page = present(ranked, query, statuses, self.texts)  # passages and notes
        answer = worth(page, ranked, query)
        self.recorder.answered(answer, corrected=bool(page.corrections))
        better = [] if answer == "found" else await self.elsewhere(query, ranked.best)
        return replace(page, notes=[*page.notes, *better])

    async def elsewhere(self, query: Query, best: Hit | None) -> list[str]:
        """The sentence on another collection that has far better than `best`."""
        look = Elsewhere(self.understanding, self.engine, self.texts)
        return await look.notes(query, best)

    async def _list(self, request: SearchRequest) -> SearchPage:
        """The newest texts, where nothing is asked of what they say."""
        understanding, seconds = self.understanding, self.understanding.limits.seconds
        period = period_of(request, understanding.now())
        targets = await understanding.resolve(request.collections)
        limit = understanding.shown(request, targets)
        lister = Lister(self.engine, self.newest, self.texts)
        found = await lister.listing(targets, request, period, limit, seconds)
        if request.query_filter and not found.documents:
            await self._doubt(request.query_filter, targets, seconds)
        found = replace(found, statuses=self._settle(found.statuses))
        return listing_page(found, request, targets, period)

    async def _retrieve_and_rank(self, query: Query) -> Ranked:
        """The hits of the best candidates.

        Again, and deeper, of the collections that could have better ones: what they did not give
        might rank with the page, or parts of theirs were left out.
        """
        retrieved = await self._retrieve_likely(query)
        ranked = await self._rank(retrieved, query)
        others = [t for t in query.targets if t.collection not in retrieved.statuses]
        if others and len(ranked.hits) < query.limit:  # candidates were parts or copies
            retrieved = retrieved.joined(await self._retrieve(others, query))
            ranked = await self._rank(retrieved, query)
        for number in range(MOST_ROUNDS):
            versions = {part.version for part in ranked.replaced if part.version}
            short = len(ranked.hits) < query.limit  # once deeper is enough to fill a page
            enough = number >= (1 if short else ROUNDS) and not versions
            if not ranked.more or query.left() <= 0 or enough:
                break
            condition = self.engine.without(query.plan.condition, versions)
            plan = query.plan.deeper(condition) if number < ROUNDS else query.plan.under(condition)
            query = replace(query, plan=plan)
            retrieved = retrieved.updated(await self._retrieve(ranked.more, query))
            ranked = await self._rank(retrieved, query)
        return ranked

    async def _retrieve_likely(self, query: Query) -> Retrieved:
        """The candidates of all targets; of many, of those that can have the best results."""
        if len(query.targets) <= self.understanding.limits.collections:
            return await self._retrieve(query.targets, query)
        wave = await asyncio.to_thread(waves, query)
        retrieved = await self._retrieve(wave.first, query)
        while wave.others and query.left() > 0:
            scored = candidates(retrieved.found.values(), query, self.texts)
            wave = wave.following(scored, *least(scored, query))
            if not wave.first:
                break
            retrieved = retrieved.joined(await self._retrieve(wave.first, query))
        return retrieved

    async def _retrieve(self, targets: Sequence[Target], query: Query) -> Retrieved:
        with self.recorder.phase("retrieve"):
            return await retrieve(self.engine, targets, query.vectors, query.terms, query.timely())

    async def _rank(self, retrieved: Retrieved, query: Query) -> Ranked:
        """The hits of a page or more; of the candidates all are read that could be among them."""
        with self.recorder.phase("rank"):
            found, plan = retrieved.found, query.timely()
            scored = candidates(found.values(), query, self.texts)
            size = plan.pool
            while True:
                pool = await self._pool(scored[:size], retrieved, plan)
                documents = rank("texts", pool.hits, query, self.texts)
                hits = rank("page", documents, query, self.texts)
                worth = worth_reading(scored, documents, hits, query)
                if pool.late or size >= worth:
                    break
                size = worth if len(hits) >= query.limit else size * 2
            shown = {(hit.collection, hit.id) for hit in hits}
            # With the scores from before the steps of the page, which the candidates have too.
            comparable = [hit for hit in documents if (hit.collection, hit.id) in shown]
            more = unfinished(found, scored, comparable, query)
            names = {part.collection for part in pool.replaced} - {t.collection for t in more}
            more += [found[name].target for name in sorted(names)]
        if pool.replaced:
            self.leftovers(pool.replaced)
        return replace(pool, hits=hits, more=more)

    async def _pool(self, hits: Sequence[Hit], retrieved: Retrieved, plan: Plan) -> Ranked:
        """The hits with their payloads, without parts of texts that were replaced."""
        found, deadline = retrieved.found, plan.deadline
        pool, late = await hydrate(self.engine, found, hits, retrieved.payloads, deadline)
        firsts = partial(payloads_of, self.engine, found, deadline=deadline, fields=["doc"])
        pool, replaced, failed = await current(pool, self.texts.document, firsts)
        return Ranked(pool, retrieved, [*late, *failed], replaced=replaced)

    async def _reread(self, ranked: Ranked, query: Query) -> Ranked:
        """The hits in the order of the reranker, where one is asked for and able; never fails."""
        hits, reranked = ranked.hits, None
        if query.request.rerank:
            gist = partial(self.texts.gist, Words(query.terms, self.texts.reader))
            with self.recorder.phase("rerank"):
                hits, reranked = await self.rerank.apply(
                    hits, query.terms.query, gist, query.left()
                )
        best = max(hits, key=lambda hit: hit.relevance, default=None)
        hits = rank("reread", hits, query, self.texts)
        return replace(ranked, hits=hits, best=best, reranked=reranked)

    async def _complete(self, ranked: Ranked, query: Query) -> Ranked:
        """The hits, with the whole payloads of those of which more is shown than a passage."""
        full = query.request.mode == "full"
        shown = ranked.hits[: query.limit]
        needy = [hit for hit in shown if full or self.texts.document(hit).textless]
        seconds = max(query.left(), LAST_SECONDS)
        found = ranked.retrieved.found
        hits = await completed(self.engine, found, ranked.hits, needy, seconds)
        return replace(ranked, hits=hits)

    async def _doubt(
        self, where: Mapping[str, Any], targets: Sequence[Target], left: float
    ) -> None:
        """Raise InvalidFilter where a filter that leaves nothing asks for a key that none has."""
        seconds = max(left, LAST_SECONDS)
        with within(seconds), suppress(TimeoutError):
            await asyncio.wait_for(self.check_keys(where, targets), seconds)

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


def _all_failed(statuses: Sequence[Status]) -> str:
    reasons = {status.reason for status in statuses}
    if len(reasons) == 1:
        names = every(status.collection for status in statuses[:5])
        return f"No collection could be searched ({names}): {reasons.pop()}"
    each = "; ".join(f"{called(status.collection)}: {status.reason}" for status in statuses[:5])
    return f"No collection could be searched: {each}"
