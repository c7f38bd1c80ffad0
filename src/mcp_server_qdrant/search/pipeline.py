"""The read path: understand -> retrieve -> rank -> reorder -> complete -> present."""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.asking import extract_question
from mcp_server_qdrant.core.context import QueryOutcome, recorder, within
from mcp_server_qdrant.core.datatypes import SearchPage, State, Status, Target
from mcp_server_qdrant.core.dates import Period
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import cite, cite_all
from mcp_server_qdrant.qdrant.history import History
from mcp_server_qdrant.qdrant.read.facets import Facets
from mcp_server_qdrant.qdrant.read.newest import Newest
from mcp_server_qdrant.search.elsewhere import UNSEEN, better_elsewhere, with_elsewhere
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
from mcp_server_qdrant.search.retrieve import Fetch, Retrieved, retrieve, with_full_payloads
from mcp_server_qdrant.search.succession import in_order_of_time
from mcp_server_qdrant.search.understand import (
    LAST_SECONDS,
    NO_VECTORS,
    Query,
    QueryVectors,
    Understanding,
    condition_by,
    period_of,
)
from mcp_server_qdrant.search.versions import as_of, with_earlier

ELSEWHERE = 2  # results from outside the default collections
SEVERITY: dict[State, int] = {"ok": 0, "degraded": 1, "skipped": 2, "timeout": 3, "failed": 4}


@dataclass(eq=False)
class Pipeline:
    """One search over many collections."""

    understanding: Understanding
    fetch: Fetch
    rerank: Rerank
    newest: Newest
    facets: Facets
    history: History

    async def search(
        self, request: SearchRequest, room: int = ROOM, folder: Path | None = None
    ) -> SearchPage:
        """The page of a request; `room` in tokens.

        A request that names no collections searches the scope of `folder`, or of the client's.

        Raises UnknownCollection, InvalidFilter, and BackendError if no collection answered.
        """
        page = await self._searched(request, room, folder)
        return replace(page, results=await with_earlier(self.history, page.results))

    async def _searched(
        self,
        request: SearchRequest,
        room: int,
        folder: Path | None,
        known: QueryVectors = NO_VECTORS,
    ) -> SearchPage:
        if not request.query.strip():
            scope = await self.understanding.scope(request, folder)
            names = scope.names if scope else request.collections
            targets = await self.understanding.catalog.resolve(names)
            queries = self.fetch.queries
            where = condition_by(queries.prepare(request.where()), queries.scope_filters(scope))
            return await self._list_newest(request, targets, where, scoped=scope is not None)
        if (asked := extract_question(request.query)) != request.query:
            request = request.model_copy(update={"query": asked})
        query = await self.understanding.query(request, folder, known)
        found = await retrieve(self.fetch, query)
        hits = rank(found.hits, query)
        if self._needs_more(found, hits, query):
            query = query.deeper(
                self.fetch.queries.exclude_versions(query.condition, found.replaced)
            )
            found = found.updated(await retrieve(self.fetch, query))
            hits = rank(found.hits, query)
        if not hits and (phrases := _common_phrases(query)):
            listed = query.targets, query.condition_of, phrases, found.statuses
            return await self._list_newest(request, *listed, scoped=query.scope is not None)
        if not hits and query.exact.phrases:  # the page says that no text contains them
            query = replace(query, exact=replace(query.exact, required=False))
            hits = rank(found.hits, query)
        ranked = await self._reorder(hits, query)
        return await self._present(ranked, found, query, room)

    async def _list_newest(
        self,
        request: SearchRequest,
        targets: Sequence[Target],
        where: Callable[[str], Any],
        phrases: Sequence[re.Pattern[str]] = (),
        searched: Sequence[Status] = (),
        *,
        scoped: bool,
    ) -> SearchPage:
        """The newest texts that contain all phrases, for a request without a rankable query."""
        understanding, seconds = self.understanding, self.understanding.timeout
        period = period_of(request, understanding.now())
        limit = request.limit or understanding.shown(request, targets)
        listed, statuses = await newest_points(
            self.newest, targets, where, period, limit, seconds, phrases
        )
        hits, late = await newest_hits(self.fetch, listed, limit, seconds)
        hits = await as_of(self.history, hits, period)
        if not hits:
            await self._check_names(request, targets, seconds)
        settled = self._worst_statuses([*searched, *statuses, *late])
        page = listing_page(hits, listed, settled, request, phrases, scoped=scoped)
        return await self._with_undated(page, targets, where, period)

    async def _with_undated(
        self,
        page: SearchPage,
        targets: Sequence[Target],
        where: Callable[[str], Any],
        period: Period | None,
    ) -> SearchPage:
        """The page, with a note on texts without a date, which a period leaves out."""
        if period is None:
            return page
        return replace(page, notes=[*page.notes, *await undated(self.newest, targets, where)])

    def _needs_more(self, found: Retrieved, hits: Sequence[Hit], query: Query) -> bool:
        """True if the page has fewer results than requested and there may be more.

        Many candidates can be parts of one text, or copies, or deleted by now.
        """
        # Orphaned parts may have displaced other texts.
        asked = query.request.limit is not None or query.exact.phrases or found.replaced
        full = any(part.full for part in found.found)
        there, wanted = len(hits), query.limit
        if query.request.within:
            there, wanted = sum(1 + len(hit.parts) for hit in hits), query.passages
        return bool(asked) and (full or found.cut) and there < wanted and query.left() > 0

    async def _reorder(self, hits: list[Hit], query: Query) -> Ranked:
        """The hits in the reranker's order, if one was requested and works; never fails."""
        hits = await as_of(self.history, hits, query.period, query.words)
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
        hits = await in_order_of_time(self.fetch, finish(hits, query), query)
        return Ranked(hits, best, reranked)

    async def _present(
        self, ranked: Ranked, found: Retrieved, query: Query, room: int
    ) -> SearchPage:
        """The page with its notes."""
        if not ranked.hits:
            await self._check_names(query.request, query.targets, query.left())
        hits = await with_full_payloads(self.fetch, ranked.hits, query)
        ranked = replace(ranked, hits=hits)
        statuses = self._worst_statuses(found.statuses)
        page = present(ranked, query, statuses, room)
        page = await self._with_undated(page, query.targets, query.condition_of, query.period)
        answer: QueryOutcome = "empty" if not page.results else "weak" if page.weak else "found"
        recorder().record_outcome(answer, corrected=bool(page.corrections))
        if answer == "found":
            return page
        name, least, failed = await better_elsewhere(self.understanding, query, ranked.best)
        if name is None:
            return replace(page, notes=[*page.notes, UNSEEN]) if failed else page
        asked = {"collections": (name,), "limit": ELSEWHERE, "score_threshold": least}
        with suppress(BackendError):
            request = query.request.model_copy(update=asked)
            other = await self._searched(request, room // 2, None, query.known)
            searched = [target.collection for target in query.targets]
            return with_elsewhere(page, other, searched, query.request.limit)
        return page

    async def _check_names(
        self, request: SearchRequest, targets: Sequence[Target], left: float
    ) -> None:
        """Raise RequestError if no text has the tags, or a key of the filter."""
        seconds = max(left, LAST_SECONDS)
        with within(seconds), suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.understanding.tags.check(request.tags or (), targets)
                if request.query_filter:
                    await self.facets.check_keys(request.query_filter, targets)

    def _worst_statuses(self, statuses: Iterable[Status]) -> list[Status]:
        """The worst status per collection; failed ones are resolved again at the next search."""
        worst: dict[str, Status] = {}
        for status in statuses:
            known = worst.get(status.collection)
            if known is None or SEVERITY[status.state] > SEVERITY[known.state]:
                worst[status.collection] = status
        for name, status in worst.items():
            if status.state == "failed":
                self.understanding.catalog.forget(name)
        recorder().record_statuses(worst.values())
        broken = [s for s in worst.values() if s.state in ("failed", "timeout", "skipped")]
        if worst and len(broken) == len(worst):
            raise BackendError(_all_failed(broken))
        return list(worst.values())


def _common_phrases(query: Query) -> list[re.Pattern[str]]:
    """The phrases of a query that has only words too common for keyword search."""
    request, searched = query.request, any(target.sparse for target in query.targets)
    if query.terms.idf or not searched or request.score_threshold is not None:
        return []
    return phrases_of(request.query)


def _all_failed(statuses: Sequence[Status]) -> str:
    reasons = {status.reason for status in statuses}
    if len(reasons) == 1:
        names = cite_all(status.collection for status in statuses[:5])
        return f"No collection could be searched ({names}): {reasons.pop()}"
    each = "; ".join(f"{cite(status.collection)}: {status.reason}" for status in statuses[:5])
    return f"No collection could be searched: {each}"
