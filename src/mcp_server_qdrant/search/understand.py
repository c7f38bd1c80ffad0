"""The request -> a query: targets, words and vectors of what is asked, tags, the extent."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from time import monotonic
from typing import Any

from mcp_server_qdrant.core.context import recorder
from mcp_server_qdrant.core.datatypes import Algorithm, Dense, Target
from mcp_server_qdrant.core.dates import Period, span
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import Preferences, SearchRequest
from mcp_server_qdrant.core.notation import line
from mcp_server_qdrant.core.tasks import gathered
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.lookup import Lookup
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.search.words.spelling import Speller
from mcp_server_qdrant.search.words.tags import TagIndex, TagMatch
from mcp_server_qdrant.search.words.terms import Reader, Terms, TermWeights, Words

WITHIN = 20  # passages of the one text that is searched, without a limit
MOST_TIMES = 3  # the results of one collection, where several are searched without a limit
# Candidates: the same for all limits up to REACH, so that a small one shows the first results of a
# large one. Of many that are asked apart each gives fewer.
CANDIDATES = 180  # of all that are asked apart
DEPTH = 60  # of one at most
SHALLOW = 10  # and at least
POOL = 60  # the best of all: their texts are ranked
PASSAGES = 6  # of one text at most
REACH = 20  # the limit up to which that is enough
DEEPER = 4  # times as many where a page is short
LAST_SECONDS = 1.0

# A model's name and a text -> a unit vector.
Encode = Callable[[str, str], Awaitable[Dense]]


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """One query vector per model; `failures` maps a model to why it has none."""

    dense: Mapping[str, Dense]
    failures: Mapping[str, str]


NO_VECTORS = QueryVectors({}, {})


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
    `depth` candidates of each collection are fetched, of those that are asked together a few more,
    and the texts of the `pool` best are ranked.
    Of one text at most so many `passages` are shown. `reader(text)` is the tokeniser for the
    language of that text.
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
        """The words of the query, to be found in texts."""
        return Words(self.terms, self.reader)

    def seconds(self) -> float:
        """The time that is left; a second at least, to show what was found."""
        return max(self.left(), LAST_SECONDS)

    def deeper(self, condition: Any) -> "Query":
        """The same with more candidates, under that condition."""
        return replace(
            self, depth=self.depth * DEEPER, pool=self.pool * DEEPER, condition=condition
        )


def depth_of(apart: int, limit: int) -> tuple[int, int]:
    """The candidates of each collection, or vector space, of so many that are asked apart, and how
    many of all are ranked as texts.
    """
    times = max(-(-limit // REACH), 1)
    depth = max(SHALLOW, min(DEPTH, -(-CANDIDATES // max(apart, 1))))
    return depth * times, POOL * times


def this_hour() -> datetime:
    """The present to the hour: a request repeated at once gets the same answer, to the last bit."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


@dataclass(eq=False)
class Understanding:
    """Turns requests into queries.

    `reader(text)` is the tokeniser for the language of a text. A request without a limit has
    `results` of each collection; a reranker reads `pool` hits.
    """

    catalog: Catalog
    lookup: Lookup
    queries: Queries
    encode: Encode
    reader: Reader
    terms: TermWeights
    speller: Speller
    tags: TagIndex
    timeout: float  # seconds of a search
    results: int
    preferences: Preferences
    rules: Rules
    pool: int
    now: Callable[[], datetime] = this_hour

    async def query(self, request: SearchRequest) -> Query:
        """The query of a request that has one.

        Raises UnknownCollection, InvalidFilter, RequestError.
        """
        end, now = monotonic() + self.timeout, self.now()
        share = dense_share(request.semantic_weight, request.keyword_weight)
        period, exact = period_of(request, now), Exact.in_query(request.query)
        text, names = None, request.collections
        if request.within:
            text = await self.lookup.one(request.within, names)
            names = (text.collection,)
        condition = self.queries.prepare(request.where(), text)
        resolved = await self.catalog.resolve(names)
        targets = [narrowed(one, request.algorithm) for one in resolved]
        preferred = request.over(self.preferences)
        alpha = self.rules.alpha if share is None else share
        alpha = 1.0 if request.algorithm == "semantic" else alpha
        tagged = targets if alpha < 1 else ()
        terms, vectors, tags = await self._words_and_vectors(
            preferred, resolved, targets, tagged, end
        )
        limit = self.shown(request, targets)
        passages = request.group_size or PASSAGES
        if text is not None:
            passages = request.limit or WITHIN
        apart = {target.space or (target.collection,) for target in targets}
        depth, pool = depth_of(len(apart), max(limit, passages))
        # Near spelling counts by the algorithm, or where the caller asks for it.
        asked = "fuzzy_boost" in request.model_fields_set
        spelled = asked or request.algorithm in ("hybrid", "fuzzy")
        # What must be found as it is written may stand further down.
        thorough = bool(exact) or preferred.rerank
        return Query(
            request=preferred,
            rules=self.rules,
            targets=targets,
            limit=limit,
            alpha=alpha,
            likeness=preferred.fuzzy_boost if spelled else 0.0,
            terms=terms,
            vectors=vectors,
            depth=depth,
            pool=max(2 * pool, self.pool) if thorough else pool,
            now=now,
            left=lambda: end - monotonic(),
            reader=self.reader,
            condition=condition,
            period=period,
            exact=exact,
            tags=tags,
            passages=passages,
        )

    def shown(self, request: SearchRequest, targets: Sequence[Target]) -> int:
        """The number of results of a request over these collections."""
        if request.within:
            return 1
        return request.limit or self.results * min(len(targets) or 1, MOST_TIMES)

    async def _words_and_vectors(
        self,
        request: SearchRequest,
        resolved: Sequence[Target],
        targets: Sequence[Target],
        tagged: Sequence[Target],
        end: float,
    ) -> tuple[Terms, QueryVectors, Mapping[str, TagMatch]]:
        """The query for each leg; where a word is misspelled, corrected and encoded again.

        Semantic search asks the collections for their words too, but only to correct the spelling.
        """
        text = request.query
        probed = resolved if request.correct else targets
        terms, vectors, tags = await asyncio.gather(
            self._probe(text, probed),
            self._embed(text, targets),
            self.tags.named(text, tagged),
        )
        suspect = terms.unknown - self.tags.terms(tags)
        if request.correct and suspect:
            half = (end - monotonic()) / 2  # the search itself has the other half of the time
            unknown = replace(terms, unknown=suspect)
            text, corrections = await self.speller.correct(unknown, probed, half)
            better = await self._probe(text, probed) if corrections else terms
            if len(better.unknown) < len(terms.unknown):
                terms = replace(better, corrections=corrections)
                vectors, tags = await asyncio.gather(
                    self._embed(text, targets), self.tags.named(text, tagged)
                )
        if request.algorithm == "semantic":
            terms = Terms(terms.query, {}, {}, corrections=terms.corrections)
        return terms, vectors, tags

    async def _probe(self, text: str, targets: Sequence[Target]) -> Terms:
        with recorder().phase("probe"):
            return await self.terms.weighed(text, targets)

    async def _embed(self, text: str, targets: Sequence[Target]) -> QueryVectors:
        with recorder().phase("embed"):
            return await embed(text, targets, self.encode)


def narrowed(target: Target, algorithm: Algorithm) -> Target:
    """The target with the legs that the algorithm searches; without any, with the reason."""
    if algorithm == "semantic" and target.sparse is not None:
        note = target.note or "semantic search needs a dense vector, and it has none"
        return replace(target, sparse=None, note=None if target.dense else note)
    if algorithm in ("keyword", "fuzzy") and target.dense is not None:
        note = f"{algorithm} search needs a bm25 vector, and it has none"
        return replace(target, dense=None, note=None if target.sparse else note)
    return target


async def embed(
    query: str, targets: Sequence[Target], encode: Encode, known: QueryVectors = NO_VECTORS
) -> QueryVectors:
    """Encode the query once for each model that a target needs, concurrently.

    Not for those of which its vector is `known`, or why there is none. A model that cannot encode
    does not fail the search: its reason is kept.
    """
    needed = {target.dense.model for target in targets if target.dense}
    models = sorted(needed - known.dense.keys() - known.failures.keys())

    async def vector(model: str) -> Dense:
        return list(await encode(model, query))

    made, failed = await gathered(models, vector)
    reasons = {model: str(error) for model, error in failed.items()}
    return QueryVectors({**known.dense, **made}, {**known.failures, **reasons})


def dense_share(semantic: float | None, keyword: float | None) -> float | None:
    """The dense leg's share of the relevance that the caller's weights ask for.

    Weights are from 0 to 1, their sum is at most 1 and one of them is above 0; one that is not
    given is what the other leaves. None where neither is given. Raises RequestError.
    """
    given = [weight for weight in (semantic, keyword) if weight is not None]
    if sum(given) > 1 + 1e-9:
        raise RequestError("Weights must not add up to more than 1.")
    if not given:
        return None
    remainder = max(1 - sum(given), 0.0)
    meaning = remainder if semantic is None else semantic
    words = remainder if keyword is None else keyword
    if meaning + words <= 0:
        raise RequestError("One of the weights must be above 0.")
    return meaning / (meaning + words)


def period_of(request: SearchRequest, now: datetime) -> Period | None:
    """The period that a request names; None where it names none. Raises RequestError."""
    since, until = _span("since", request.since, now), _span("until", request.until, now)
    if since is None and until is None:
        return None
    period = Period(since and since[0], until and until[1])
    if period.since and period.until and period.since >= period.until:
        raise RequestError("since is later than until: exchange them.")
    return period


def _span(name: str, text: str | None, now: datetime) -> tuple[datetime, datetime] | None:
    if not text or not text.strip():
        return None
    if found := span(text, now):
        return found
    raise RequestError(
        f"{name} is no date: {line(text, 40)!r}. Use 2026-10-31, 2026-10, yesterday, last "
        "week, or 3 days, 2w, 3m, 1y for the time so long ago."
    )
