"""The request -> a query: targets, words and vectors of what is asked, tags, the extent."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from mcp_server_qdrant.core.datatypes import Document, QueryVectors, TagMatch, Target, Terms
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import Preferences, SearchRequest
from mcp_server_qdrant.core.telemetry import Recorder
from mcp_server_qdrant.search.algorithm import dense_share, fusion_weights, narrowed
from mcp_server_qdrant.search.embed import Encode, begun, embed
from mcp_server_qdrant.search.period import period_of
from mcp_server_qdrant.search.query import PASSAGES, Query, Rules, depth_of
from mcp_server_qdrant.search.words.spelling import Speller, Variants
from mcp_server_qdrant.search.words.tags import TagIndex
from mcp_server_qdrant.search.words.terms import TermWeights

WITHIN = 20  # passages of the one text that is searched, without a limit
MOST_TIMES = 3  # the results of one collection, where several are searched without a limit


def this_hour() -> datetime:
    """The present to the hour: a request repeated at once gets the same answer, to the last bit."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


@dataclass(eq=False)
class Understanding:
    """Turns requests into queries.

    `resolve` gives the targets of a search, `locate` the text of an id in some collections,
    `prepare` a filter as the engine wants it. A request
    without a limit has `results` of each collection; a reranker reads `pool` hits.
    """

    resolve: Callable[[Sequence[str] | None], Awaitable[list[Target]]]
    locate: Callable[[str, Sequence[str] | None], Awaitable[Document]]
    prepare: Callable[[Mapping[str, Any] | None, Document | None], Any]
    encode: Encode
    terms: TermWeights
    speller: Speller
    tags: TagIndex
    timeout: float  # seconds of a search
    results: int
    preferences: Preferences
    rules: Rules
    pool: int
    now: Callable[[], datetime] = this_hour
    recorder: Recorder = field(default_factory=Recorder)
    _models: Sequence[str] = ()  # that the last query was encoded for

    async def of(self, request: SearchRequest) -> Query:
        """The query of a request that has one.

        Raises UnknownCollection, InvalidFilter, RequestError.
        """
        left, now = _countdown(self.timeout), self.now()
        share = dense_share(request.semantic_weight, request.keyword_weight)
        period, exact = period_of(request, now), Exact.of(request.query)
        text = await self.locate(request.within, request.collections) if request.within else None
        condition = self.prepare(request.where(), text)
        searched = (text.collection,) if text else request.collections
        preferred = request.over(self.preferences)
        # The query is encoded while the names of collections are asked for.
        with begun(request.query, self._models, self.encode) as encode:
            resolved = await self.resolve(searched)
            targets = narrowed(resolved, request.algorithm)
            alpha = self._alpha(request, share)
            tagged = targets if alpha < 1 else ()
            terms, vectors, tags = await self._words_and_vectors(
                preferred, resolved, targets, tagged, encode
            )
        self._models = [*vectors.dense]
        limit = self.shown(request, targets)
        passages = request.group_size or PASSAGES
        if text is not None:
            passages = request.limit or WITHIN
        depth, pool = depth_of(len(targets), max(limit, passages))
        # What must be found as it is written, or differ, may stand further down.
        thorough = bool(exact) or preferred.rerank or preferred.diversity > 0
        return Query(
            request=preferred,
            rules=self.rules,
            targets=targets,
            limit=limit,
            alpha=alpha,
            likeness=preferred.fuzzy_boost if _boosted(request) else 0.0,
            terms=terms,
            vectors=vectors,
            depth=depth,
            pool=max(2 * pool, self.pool) if thorough else pool,
            now=now,
            left=left,
            condition=condition,
            period=period,
            exact=exact,
            tags=tags,
            weights=fusion_weights(share),
            passages=passages,
        )

    def shown(self, request: SearchRequest, targets: Sequence[Target]) -> int:
        """The number of results of a request over these collections."""
        if request.within:
            return 1
        return request.limit or self.results * min(len(targets) or 1, MOST_TIMES)

    def _alpha(self, request: SearchRequest, share: float | None) -> float:
        """The dense leg's share of the relevance."""
        if request.algorithm == "semantic":
            return 1.0
        return self.rules.alpha if share is None else share

    async def _words_and_vectors(
        self,
        request: SearchRequest,
        resolved: Sequence[Target],
        targets: Sequence[Target],
        tagged: Sequence[Target],
        encode: Encode,
    ) -> tuple[Terms, QueryVectors, Mapping[str, TagMatch]]:
        """The query for each leg; where a word is misspelled, corrected and encoded again.

        Semantic search asks the collections for their words too, but only to correct the spelling.
        """
        text = request.query
        if request.algorithm == "fuzzy":
            terms, tags = await asyncio.gather(
                self._expanded(text, targets), self.tags.of(text, tagged)
            )
            return terms, QueryVectors({}, {}), tags
        probed = resolved if request.correct else targets
        terms, vectors, tags = await asyncio.gather(
            self._probe(text, probed),
            self._embed(text, targets, encode),
            self.tags.of(text, tagged),
        )
        suspect = terms.unknown - self.tags.terms(tags)
        if request.correct and suspect:
            text, corrections = await self.speller.correct(replace(terms, unknown=suspect), probed)
            better = await self._probe(text, probed) if corrections else terms
            if len(better.unknown) < len(terms.unknown):
                terms = replace(better, corrections=corrections)
                vectors, tags = await asyncio.gather(
                    self._embed(text, targets, encode), self.tags.of(text, tagged)
                )
        if request.algorithm == "semantic":
            terms = Terms(terms.query, {}, {}, corrections=terms.corrections)
        return terms, vectors, tags

    async def _expanded(self, text: str, targets: Sequence[Target]) -> Terms:
        """The words of the query and those spelled almost like them."""
        variants, unread = await self.speller.expand(text, targets)
        terms = await self._probe(text, targets, variants)
        return replace(terms, corrections=self.speller.replaced(terms, variants), unread=unread)

    async def _probe(
        self,
        text: str,
        targets: Sequence[Target],
        variants: Variants | None = None,
    ) -> Terms:
        with self.recorder.phase("probe"):
            return await self.terms.of(text, targets, variants)

    async def _embed(self, text: str, targets: Sequence[Target], encode: Encode) -> QueryVectors:
        with self.recorder.phase("embed"):
            return await embed(text, targets, encode)


def _boosted(request: SearchRequest) -> bool:
    """Whether near spelling counts: by the algorithm, or as the caller asks for it."""
    return request.algorithm in ("hybrid", "fuzzy") or "fuzzy_boost" in request.model_fields_set


def _countdown(seconds: float) -> Callable[[], float]:
    """A clock that gives the rest of so many seconds."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    return lambda: end - clock()
