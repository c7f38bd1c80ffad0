"""Turns a request into a query: targets, terms, vectors, tags, filters and limits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

from mcp_server_qdrant.core.context import recorder
from mcp_server_qdrant.core.datatypes import Algorithm, Dense, Target, Targets
from mcp_server_qdrant.core.dates import Period, parse_period
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import RECENCY_WEIGHT, SearchRequest
from mcp_server_qdrant.core.notation import one_line
from mcp_server_qdrant.core.tasks import gather
from mcp_server_qdrant.qdrant.filters import both
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.lookup import Lookup
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.qdrant.read.scope import Scope
from mcp_server_qdrant.search.words.spelling import Speller
from mcp_server_qdrant.search.words.tags import TagIndex, TagMatch
from mcp_server_qdrant.search.words.terms import Reader, Terms, TermWeights, Words

WITHIN = 20  # passages, if one text is searched and no limit is given
MOST_TIMES = 3  # times the results of one collection, if several are searched without a limit
# Candidates: the same number for all limits up to REACH, so that the results of a smaller limit are
# a prefix of a larger one's. The more collections are queried separately, the fewer from each.
CANDIDATES = 180  # of all collections that are queried separately
DEPTH = 60  # of one collection at most
SHALLOW = 10  # of one collection at least
POOL = 60  # the best of all, whose texts are ranked
PASSAGES = 6  # of one text at most
REACH = 20  # the highest limit for which that is enough
DEEPER = 4  # times as many if a page is short
LAST_SECONDS = 1.0  # always left to finish an answer

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
    """The operator's ranking rules, which no request changes.

    `alpha` is the default weight of the dense leg; `order` are the preferred collections, the most
    preferred first. `recency_weight` and `rerank` are the defaults of a request.
    """

    alpha: float
    order: tuple[str, ...] = ()
    time_fields: tuple[str, ...] = ()
    recency_weight: float = RECENCY_WEIGHT
    rerank: bool = False


@dataclass(frozen=True)
class Query:
    """All inputs of a search.

    `request`: the caller's, with the server's preferences filled in.
    `alpha`: weight of the dense leg. `likeness`: highest gain for similar spelling.
    `now`: the reference for the age of texts. `left()`: seconds that remain for the search.
    `exact`: terms that must be found as written. `condition`: the filter in the engine's form.
    `period`: the range of dates. `tags`: tags that the query names, by collection.
    `depth`: candidates fetched of each collection (more if several are queried together).
    `pool`: the best of them whose texts are ranked. `passages`: highest number shown of one text.
    `reader(text)`: the tokeniser for the text's language.
    `scope`: the folder's scope if the request names no collections. `confined`: filters of
    collections that are only partly in it.
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
    scope: Scope | None = None
    confined: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def words(self) -> Words:
        """The words of the query, to match against texts."""
        return Words(self.terms, self.reader)

    @property
    def known(self) -> QueryVectors:
        """The vectors of the query as it was asked; none if it was corrected."""
        return self.vectors if self.terms.query == self.request.query else NO_VECTORS

    def condition_of(self, collection: str) -> Any:
        """The filter for a collection, in the engine's form."""
        return condition_by(self.condition, self.confined)(collection)

    def seconds(self) -> float:
        """The remaining time, but at least a second, to show what was found."""
        return max(self.left(), LAST_SECONDS)

    def deeper(self, condition: Any) -> "Query":
        """The same with more candidates, under that condition."""
        return replace(
            self, depth=self.depth * DEEPER, pool=self.pool * DEEPER, condition=condition
        )


def condition_by(condition: Any, confined: Mapping[str, Any]) -> Callable[[str], Any]:
    """A function from a collection to its filter, which includes that of `confined`."""
    return lambda name: both(confined[name], condition) if name in confined else condition


def pool_sizes(apart: int, limit: int) -> tuple[int, int]:
    """(candidates of each collection or vector space, texts that are ranked).

    `apart` is the number of collections or spaces that are queried separately.
    """
    times = max(-(-limit // REACH), 1)
    depth = max(SHALLOW, min(DEPTH, -(-CANDIDATES // max(apart, 1))))
    return depth * times, POOL * times


def this_hour() -> datetime:
    """The current time, rounded to the hour, so that repeated requests get identical answers."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


@dataclass(eq=False)
class Understanding:
    """Turns requests into queries.

    `reader(text)` is the tokeniser for the text's language. `results` is the default limit per
    collection; a reranker reads `pool` hits.
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
    rules: Rules
    pool: int
    now: Callable[[], datetime] = this_hour

    async def scope(self, request: SearchRequest, folder: Path | None) -> Scope | None:
        """The scope of the folder, or of the client's, if the request names no collections."""
        named = request.collections is not None or request.within
        return None if named else await self.catalog.scope(folder)

    async def query(
        self,
        request: SearchRequest,
        folder: Path | None = None,
        known: QueryVectors = NO_VECTORS,
    ) -> Query:
        """The query of a request that has one; some of its vectors may be `known`.

        Raises UnknownCollection, InvalidFilter, RequestError.
        """
        end, now = monotonic() + self.timeout, self.now()
        share = dense_share(request.semantic_weight, request.keyword_weight)
        period, exact = period_of(request, now), Exact.in_query(request.query)
        text, names = None, request.collections
        if scope := await self.scope(request, folder):
            names = scope.names
        if request.within:
            text = await self.lookup.find_one(request.within, names)
            names = (text.collection,)
        condition = self.queries.prepare(request.where(), text)
        resolved = await self.catalog.resolve(names)
        targets = resolved
        if request.algorithm != "hybrid":
            targets = Targets(narrow_legs(one, request.algorithm) for one in resolved)
        preferred = request.with_defaults(
            recency_weight=self.rules.recency_weight, rerank=self.rules.rerank
        )
        alpha = self.rules.alpha if share is None else share
        alpha = 1.0 if request.algorithm == "semantic" else alpha
        tagged = targets if alpha < 1 else ()
        terms, vectors, tags = await self._words_and_vectors(
            preferred, resolved, targets, tagged, end, known
        )
        limit = self.shown(request, targets)
        passages = request.group_size or PASSAGES
        if text is not None:
            passages = request.limit or WITHIN
        depth, pool = pool_sizes(targets.separate_queries, max(limit, passages))
        # Spelling counts if the algorithm includes it or the caller asks for it.
        asked = "fuzzy_boost" in request.model_fields_set
        spelled = asked or request.algorithm in ("hybrid", "fuzzy")
        # Exact terms may be found further down.
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
            scope=scope,
            confined=self.queries.scope_filters(scope),
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
        known: QueryVectors,
    ) -> tuple[Terms, QueryVectors, Mapping[str, TagMatch]]:
        """The terms, vectors and tags of the query, with its spelling corrected.

        A semantic search probes terms too, but only to correct the spelling.
        """
        text = request.query
        probed = resolved if request.correct else targets
        # The model comes first: it encodes in a thread while the rest runs here.
        vectors, terms, tags = await asyncio.gather(
            self._embed(text, targets, known),
            self._probe(text, probed),
            self.tags.named(text, tagged),
        )
        suspect = terms.unknown - self.tags.terms(tags)
        if request.correct and suspect:
            half = (end - monotonic()) / 2  # the other half is for the search itself
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

    async def _embed(
        self, text: str, targets: Sequence[Target], known: QueryVectors = NO_VECTORS
    ) -> QueryVectors:
        with recorder().phase("embed"):
            return await embed(text, targets, self.encode, known)


def narrow_legs(target: Target, algorithm: Algorithm) -> Target:
    """The target with only the legs that the algorithm uses; if none is left, with a note why."""
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
    """Encode the query once for each model of the targets, concurrently.

    Models in `known` are not asked again. A model that fails does not fail the search; its reason
    is kept.
    """
    needed = {
        some[0].dense.model for some in Targets.from_sequence(targets).groups if some[0].dense
    }
    models = sorted(needed - known.dense.keys() - known.failures.keys())

    async def vector(model: str) -> Dense:
        return list(await encode(model, query))

    made, failed = await gather(models, vector)
    reasons = {model: str(error) for model, error in failed.items()}
    return QueryVectors({**known.dense, **made}, {**known.failures, **reasons})


def dense_share(semantic: float | None, keyword: float | None) -> float | None:
    """The weight of the dense leg from the caller's weights; None if the caller gave none.

    Weights are in [0, 1], their sum is at most 1, and at least one is above 0. A missing weight is
    1 minus the other. Raises RequestError.
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
    """The period of a request, or None. Raises RequestError."""
    since, until = _span("since", request.since, now), _span("until", request.until, now)
    if since is None and until is None:
        return None
    period = Period(since and since[0], until and until[1])
    if period.since and period.until and period.since >= period.until:
        raise RequestError("since is later than until: swap them.")
    return period


def _span(name: str, text: str | None, now: datetime) -> tuple[datetime, datetime] | None:
    if not text or not text.strip():
        return None
    if found := parse_period(text, now):
        return found
    raise RequestError(
        f"{name} is not a date: {one_line(text, 40)!r}. Use 2026-10-31, May 2026, monday, last "
        "week, or a time ago: 3 days, 2w, 3m, 1y."
    )
