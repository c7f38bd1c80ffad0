"""The read path: understand -> retrieve -> rank -> reread -> complete -> present."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from mcp_server_qdrant.core.context import Answer, recorder, within
from mcp_server_qdrant.core.datatypes import SearchPage, State, Status, Target
from mcp_server_qdrant.core.dates import Period
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import called, every
from mcp_server_qdrant.qdrant.read.facets import Facets
from mcp_server_qdrant.qdrant.read.newest import Newest
from mcp_server_qdrant.search.elsewhere import better_elsewhere
from mcp_server_qdrant.search.listing import (
    listing_page,
    newest_hits,
    newest_points,
    phrases_of,
    undated,
)
from mcp_server_qdrant.search.present import ROOM, gist, present
from mcp_server_qdrant.search.ranking import finish, rank
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.rerank import Ranked, Rerank
from mcp_server_qdrant.search.retrieve import Fetch, Retrieved, completed, retrieve
from mcp_server_qdrant.search.understand import LAST_SECONDS, Query, Understanding, period_of

SEVERITY: dict[State, int] = {"ok": 0, "degraded": 1, "skipped": 2, "timeout": 3, "failed": 4}


@dataclass(eq=False)
class Pipeline:
    """One search over many collections."""

    understanding: Understanding
    fetch: Fetch
    rerank: Rerank
    newest: Newest
    facets: Facets

    async def search(self, request: SearchRequest, room: int = ROOM) -> SearchPage:
        """The answer to one request, on a page of so many tokens.

        Raises UnknownCollection, InvalidFilter, and BackendError where no collection answered.
        """
        if not request.query.strip():
            targets = await self.understanding.catalog.resolve(request.collections)
            return await self._list(request, targets, self.fetch.queries.prepare(request.where()))
        query = await self.understanding.query(request)
        found = await retrieve(self.fetch, query)
        hits = rank(found.hits, query)
        if self._short(found, hits, query):
            query = query.deeper(self.fetch.queries.without(query.condition, found.replaced))
            found = found.updated(await retrieve(self.fetch, query))
            hits = rank(found.hits, query)
        if not hits and (phrases := _common(query)):
            known = query.targets, query.condition, phrases, found.statuses
            return await self._list(request, *known)
        ranked = await self._reread(hits, query)
        return await self._present(ranked, found, query, room)

    async def _list(
        self,
        request: SearchRequest,
        targets: Sequence[Target],
        condition: Any,
        phrases: Sequence[re.Pattern[str]] = (),
        searched: Sequence[Status] = (),
    ) -> SearchPage:
        """The newest texts, for a request without a query; those in which all phrases occur."""
        understanding, seconds = self.understanding, self.understanding.timeout
        period = period_of(request, understanding.now())
        limit = request.limit or understanding.shown(request, targets)
        listed, statuses = await newest_points(
            self.newest, targets, condition, period, limit, seconds, phrases
        )
        hits, late = await newest_hits(self.fetch, listed, limit, seconds)
        if not hits:
            await self._doubt(request, targets, seconds)
        page = listing_page(
            hits, listed, self._settle([*searched, *statuses, *late]), request, phrases
        )
        return await self._with_undated(page, targets, condition, period)

    async def _with_undated(
        self, page: SearchPage, targets: Sequence[Target], condition: Any, period: Period | None
    ) -> SearchPage:
        """The page, with a note on the texts that a period left out since they have no date."""
        if period is None:
            return page
        return replace(page, notes=[*page.notes, *await undated(self.newest, targets, condition)])

    def _short(self, found: Retrieved, hits: Sequence[Hit], query: Query) -> bool:
        """True where a page lacks results that were asked for, and there may be more.

        Candidates may have been parts of one text, or copies, or be gone.
        """
        asked = query.request.limit is not None or found.replaced  # drafts may hide other texts
        full = any(part.full for part in found.found)
        there, wanted = len(hits), query.limit
        if query.request.within:
            there, wanted = sum(1 + len(hit.parts) for hit in hits), query.passages
        return bool(asked) and (full or found.cut) and there < wanted and query.left() > 0

    async def _reread(self, hits: list[Hit], query: Query) -> Ranked:
        """The hits as a reranker orders them, if one is asked for and works; never fails."""
        reranked = None
        if query.request.rerank:
            with recorder().phase("rerank"):
                hits, reranked = await self.rerank.apply(
                    hits,
                    query.terms.query,
                    lambda hit, length: gist(hit.document, query.words, length),
                    query.left(),
                )
        best = max(hits, key=lambda hit: hit.relevance, default=None)
        return Ranked(finish(hits, query), best, reranked)

    async def _present(
        self, ranked: Ranked, found: Retrieved, query: Query, room: int
    ) -> SearchPage:
        """The page with its notes."""
        if not ranked.hits:
            await self._doubt(query.request, query.targets, query.left())
        hits = await completed(self.fetch, ranked.hits, query)
        ranked = replace(ranked, hits=hits)
        statuses = self._settle(found.statuses)
        page = present(ranked, query, statuses, room)
        page = await self._with_undated(page, query.targets, query.condition, query.period)
        answer: Answer = "empty" if not page.results else "weak" if page.weak else "found"
        recorder().answered(answer, corrected=bool(page.corrections))
        if answer == "found":
            return page
        better = await better_elsewhere(self.understanding, query, ranked.best)
        return replace(page, notes=[*page.notes, *better])

    async def _doubt(self, request: SearchRequest, targets: Sequence[Target], left: float) -> None:
        """Raise RequestError if no text has any of the tags, or a key of the filter."""
        seconds = max(left, LAST_SECONDS)
        with within(seconds), suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.understanding.tags.check(request.tags or (), targets)
                if request.query_filter:
                    await self.facets.check_keys(request.query_filter, targets)

    def _settle(self, statuses: Iterable[Status]) -> list[Status]:
        """One status per collection, the worst; one that failed is looked up anew next time."""
        worst: dict[str, Status] = {}
        for status in statuses:
            known = worst.get(status.collection)
            if known is None or SEVERITY[status.state] > SEVERITY[known.state]:
                worst[status.collection] = status
        for name, status in worst.items():
            if status.state == "failed":
                self.understanding.catalog.forget(name)
        recorder().fared(worst.values())
        broken = [s for s in worst.values() if s.state in ("failed", "timeout", "skipped")]
        if worst and len(broken) == len(worst):
            raise BackendError(_all_failed(broken))
        return list(worst.values())


def _common(query: Query) -> list[re.Pattern[str]]:
    """The phrases of a query whose words are all too common for keyword search."""
    request, searched = query.request, any(target.sparse for target in query.targets)
    if query.terms.idf or not searched or request.score_threshold is not None:
        return []
    return phrases_of(request.query)


def _all_failed(statuses: Sequence[Status]) -> str:
    reasons = {status.reason for status in statuses}
    if len(reasons) == 1:
        names = every(status.collection for status in statuses[:5])
        return f"No collection could be searched ({names}): {reasons.pop()}"
    each = "; ".join(f"{called(status.collection)}: {status.reason}" for status in statuses[:5])
    return f"No collection could be searched: {each}"
