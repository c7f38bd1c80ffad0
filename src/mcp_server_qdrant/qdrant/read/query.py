"""The queries of a search: fused candidates with exact leg scores, IDFs of terms, payloads.

Collections of one vector space are searched together, all others one by one. An error, such as
EngineTimeout, concerns all collections that were searched together.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from operator import mul
from typing import Any, TypeVar

from qdrant_client import models

from mcp_server_qdrant.core.context import within
from mcp_server_qdrant.core.datatypes import (
    RRF_K,
    Best,
    Candidate,
    Dense,
    DenseLeg,
    Document,
    LegQuery,
    Payload,
    PointId,
    Scored,
    Target,
)
from mcp_server_qdrant.core.dates import DATES, Period
from mcp_server_qdrant.core.errors import EngineTimeout, QdrantMcpError
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.engine import Ask, Candidates, Corpus, Engine, Leg, Plain
from mcp_server_qdrant.qdrant.filters import (
    both,
    equal,
    exclude_expired,
    has_id,
    one_of,
    parse,
    restrict_to_period,
)
from mcp_server_qdrant.qdrant.legs import vector_of
from mcp_server_qdrant.qdrant.payload import DOCUMENT_KEY, PROJECT_KEY, VERSION_KEY
from mcp_server_qdrant.qdrant.read.scope import Scope
from mcp_server_qdrant.qdrant.texts import keys_of

AT_ONCE = 64  # parallel requests of one search
DOUBLED = 0.25  # share of the depth added for each doubling of the number of collections
SECONDS = 30.0  # the default time limit
COSINES = ("cosine", "dot")  # distances whose scores are cosines for unit vectors
LATE = (
    "No answer in time: the engine is busy or still starting. Ask again in a moment, or name fewer "
    "collections."
)

Place = tuple[str, PointId]
Asked = Sequence[tuple[Sequence[Target], LegQuery]]  # targets that are alike, and their query

A = TypeVar("A")
T = TypeVar("T")


class Queries:
    """Queries an engine, or a tenant's view of one, for many collections in parallel.

    `dates`: the date paths of collections without a date index. `paths`: the payload fields to
    read, besides those of the `texts`; empty for all (then `partial` is false). Texts that have
    expired by `now` are not found.
    """

    def __init__(
        self,
        client: Engine,
        dates: Sequence[str] = DATES,
        paths: Sequence[str] = (),
        texts: Sequence[str] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._dates = tuple(dates)
        self._fields, self._texts = tuple(paths), texts
        self.partial = bool(paths)
        self.now = now

    def prepare(
        self, raw: Mapping[str, Any] | None, within: Document | None = None
    ) -> models.Filter | None:
        """A caller's filter, validated once per search, restricted to one text if given.

        Raises InvalidFilter.
        """
        parsed = parse(raw)
        return both(_points_of(within), parsed) if within else parsed

    def exclude_versions(
        self, condition: models.Filter | None, replaced: Iterable[Document]
    ) -> models.Filter | None:
        """The condition, excluding the further parts of these replaced versions.

        First parts stay, because their version may be current by now.
        """
        known = [doc for doc in replaced if doc.document and doc.version]
        if not known:
            return condition
        parts = models.Filter(
            must=[
                one_of(DOCUMENT_KEY, sorted({str(doc.document) for doc in known})),
                one_of(VERSION_KEY, sorted({str(doc.version) for doc in known})),
            ],
            must_not=[has_id(sorted({str(doc.head) for doc in known}))],
        )
        return both(models.Filter(must_not=[parts]), condition)

    def scope_filters(self, scope: Scope | None) -> Mapping[str, models.Filter]:
        """Collection -> the condition on its texts, for collections partly in the scope."""
        if scope is None:
            return {}
        unnamed = models.IsEmptyCondition(is_empty=models.PayloadField(key=PROJECT_KEY))
        of_these = models.Filter(should=[unnamed, one_of(PROJECT_KEY, sorted(scope.projects))])
        found = dict.fromkeys(scope.sessions, of_these)
        if scope.others:
            of_others = one_of(PROJECT_KEY, sorted(scope.others))
            found |= dict.fromkeys(scope.shared, models.Filter(must_not=[of_others]))
        return found

    async def search(
        self,
        asked: Asked,
        *,
        depth: int,
        condition: models.Filter | None,
        period: Period | None = None,
        seconds: float = SECONDS,
        best: Best | None = None,
    ) -> tuple[list[Scored], dict[str, QdrantMcpError]]:
        """The candidates of the targets, and the errors of those that failed, by collection.

        `depth` is the number for a single target. Of many together a few more are fetched, as from
        one large collection; of these only the `best` need to be returned.
        """
        own = {id(query.where): query.where for _, query in asked}

        @cache  # built once for the asks that share it
        def where(
            key: int,
            dates: tuple[str, ...],
            tags: tuple[tuple[str, str], ...],
            expiring: bool,  # noqa: FBT001
        ) -> Plain | None:
            whole = both(own[key], condition) if own[key] else condition
            narrowed = restrict_to_period(whole, period, dates, then=True)
            narrowed = exclude_expired(narrowed, self.now()) if expiring else narrowed
            narrowed = _restrict_to_tags(tags, narrowed) if tags else narrowed
            return None if narrowed is None else plain(narrowed)

        groups, searched = _group(asked), dict[Any, list[str]]()
        for targets, _ in groups:
            searched.setdefault(_corpus(targets[0]), []).extend(t.collection for t in targets)
        asks = []
        for targets, queries in groups:
            target, query = targets[0], queries[0]
            found = (one.dates or self._dates for one in targets)
            # A date path that a collection lacks matches nothing there.
            dates = tuple(dict.fromkeys(chain.from_iterable(found))) if period else ()
            tags = tuple(dict.fromkeys(chain.from_iterable(one.tags for one in queries)))
            key, expiring = id(query.where), any(one.expiring for one in targets)
            tagged = where(key, dates, tags, expiring) if tags else None
            legs = _build_legs(target, query, where(key, dates, (), expiring), tagged)
            comparable = target.dense is None or target.dense.distance in COSINES
            if best and comparable:
                legs = _weigh(legs, best)
            asks.append(
                Ask(
                    collections=tuple(target.collection for target in targets),
                    legs=legs,
                    k=RRF_K,
                    limit=round(depth * (1 + DOUBLED * math.log2(len(targets)))),
                    fields=(*self._fields, *keys_of(self._texts, target.collection))
                    if self._fields
                    else (),
                    corpus=tuple(searched[_corpus(target)]),
                    keep_best=best.number if best and comparable else 0,
                )
            )
        answers = await in_time(asks, self._client.candidates, seconds)
        scored, failed = list[Scored](), dict[str, QdrantMcpError]()
        for (targets, queries), ask, answer in zip(groups, asks, answers, strict=True):
            if isinstance(answer, QdrantMcpError):
                failed |= dict.fromkeys(ask.collections, answer)
            else:
                failed |= answer.failed
                known = await self._cosines(targets[0].dense, queries[0].dense, answer, seconds)
                scored.append(_join_scores(targets, queries[0], ask, answer, known))
        return scored, failed

    async def _cosines(
        self, leg: DenseLeg | None, query: Dense | None, answer: Candidates, seconds: float
    ) -> dict[Place, float]:
        """The cosines of the candidates from their vectors, for a distance without a formula."""
        if leg is None or query is None or leg.distance != "manhattan":
            return {}
        places: dict[str, list[PointId]] = {}
        for one in answer.points:
            places.setdefault(one.collection, []).append(one.id)
        answers = await self.vectors([(name, leg, ids) for name, ids in places.items()], seconds)
        known: dict[Place, float] = {}
        for name, found in zip(places, answers, strict=True):
            for point, vector in () if isinstance(found, QdrantMcpError) else found.items():
                size = math.hypot(*vector) * math.hypot(*query)
                known[name, point] = sum(map(mul, vector, query)) / size if size else 0.0
        return known

    async def probe(
        self, asked: Sequence[Corpus], seconds: float = SECONDS
    ) -> list[Mapping[int, float] | QdrantMcpError]:
        """For each corpus, the engine's own IDF of the terms; absent ones are left out."""
        return await in_time(asked, self._client.idfs, seconds)

    async def payloads(
        self, asked: Sequence[tuple[str, Sequence[PointId]]], seconds: float = SECONDS
    ) -> list[Mapping[PointId, Payload] | QdrantMcpError]:
        """For each collection the payloads of the named points by id."""

        async def read(one: tuple[str, Sequence[PointId]]) -> Mapping[PointId, Payload]:
            points = await self._client.retrieve(*one, with_payload=True)
            return {point.id: point.payload or {} for point in points}

        return await in_time(asked, read, seconds)

    async def vectors(
        self, asked: Sequence[tuple[str, DenseLeg, Sequence[PointId]]], seconds: float = SECONDS
    ) -> list[Mapping[PointId, Dense] | QdrantMcpError]:
        """For each collection the dense vectors of the named points by id."""

        async def read(one: tuple[str, DenseLeg, Sequence[PointId]]) -> Mapping[PointId, Dense]:
            name, leg, ids = one
            wanted = [leg.vector] if leg.vector else True
            points = await self._client.retrieve(name, ids, with_payload=False, with_vectors=wanted)
            return {p.id: vector for p in points if (vector := vector_of(p, leg)) is not None}

        return await in_time(asked, read, seconds)


async def in_time(
    asked: Sequence[A], ask: Callable[[A], Awaitable[T]], seconds: float
) -> list[T | QdrantMcpError]:
    """Call `ask` for each item, at most AT_ONCE in parallel.

    Returns for each its result, our error, or EngineTimeout if it was late.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def trip(one: A) -> T | QdrantMcpError:
        try:
            async with asyncio.timeout(seconds), gate:
                return await ask(one)
        except TimeoutError:
            return EngineTimeout(LATE)
        except QdrantMcpError as error:
            return error

    with within(seconds):
        try:
            async with asyncio.TaskGroup() as group:
                trips = [group.create_task(trip(one)) for one in asked]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
    return [one.result() for one in trips]


def _group(asked: Asked) -> list[tuple[list[Target], list[LegQuery]]]:
    """Group targets that can be searched together: same space, same query for each leg."""
    groups: dict[Any, tuple[list[Target], list[LegQuery]]] = {}
    for some, query in asked:
        target = some[0]
        key: Any = target.collection
        if target.space is not None:
            same = id(query.dense), id(query.sparse), id(query.where)
            key = target.space, target.dense, target.sparse, *same
        targets, queries = groups.setdefault(key, ([], []))
        targets += some
        queries.append(query)
    return [*groups.values()]


def _corpus(target: Target) -> tuple[Any, ...]:
    """The key of the targets that share an IDF."""
    alone = target.collection if target.space is None else None
    return alone, target.space, target.sparse


def _points_of(text: Document) -> models.Filter:
    """A filter for the points of a text."""
    of = has_id([text.id]) if text.document is None else equal(DOCUMENT_KEY, text.document)
    return models.Filter(must=[of])


def _restrict_to_tags(
    tags: Sequence[tuple[str, str]], condition: models.Filter | None
) -> models.Filter:
    """The condition, restricted to points with one of the tags (payload key, value)."""
    keys = dict.fromkeys(key for key, _ in tags)
    either = [one_of(key, (value for k, value in tags if k == key)) for key in keys]
    return both(models.Filter(should=either), condition)


def _build_legs(target: Target, query: LegQuery, where: Any, tagged: Any) -> tuple[Leg, ...]:
    """The legs to search, dense first; the leg over tags has no scores."""
    legs: list[Leg] = []
    if target.dense is not None and query.dense is not None:
        legs.append(Leg(target.dense.vector, query.dense, where))
    if target.sparse is not None and (sparse := query.sparse) and sparse.indices:
        words = {"indices": list(sparse.indices), "values": list(sparse.values)}
        legs.append(Leg(target.sparse.vector, words, where))
    if legs and tagged is not None:
        legs.append(replace(legs[0], where=tagged, scored=False))
    return tuple(legs)


def _weigh(legs: Sequence[Leg], best: Best) -> tuple[Leg, ...]:
    """The legs with their `worth`; scores of a dense leg must be cosines."""
    alone = sum(leg.scored for leg in legs) == 1
    weighed = []
    for leg in legs:
        words = isinstance(leg.query, dict)
        share = 1.0 if alone else 1 - best.alpha if words else best.alpha
        most = best.bound if words and best.bound > 0 else 1.0
        weighed.append(replace(leg, worth=(share, most)))
    return tuple(weighed)


def _join_scores(
    targets: Sequence[Target],
    query: LegQuery,
    ask: Ask,
    answer: Candidates,
    known: Mapping[Place, float],
) -> Scored:
    """The candidates with the scores of the legs that were searched; some cosines are `known`."""
    dense = targets[0].dense if query.dense is not None else None
    words = targets[0].sparse is not None and query.sparse is not None
    candidates = []
    for found in answer.points:
        place, scores = (found.collection, found.id), iter(found.scores)
        cos = None if dense is None else cosine(next(scores), dense)
        cos = known.get(place, cos)
        bm25 = next(scores, None) or 0.0 if words else None
        candidates.append(Candidate(*place, found.rrf, cos, bm25, found.payload, found.current))
    answered = [target for target in targets if target.collection not in answer.failed]
    full = len(candidates) >= min(ask.limit, ask.keep_best or ask.limit)
    return Scored(answered, candidates, full, answer.damage)


def cosine(score: float | None, leg: DenseLeg) -> float:
    """The cosine similarity from a dense score, for unit vectors and any distance.

    0 for a point without the vector.

    Euclid: |a - b|^2 = 2 - 2 cos. Manhattan has no such identity; 1 / (1 + d) keeps its order.
    """
    if score is None or not math.isfinite(score):
        return 0.0
    match leg.distance:
        case "euclid":
            return 1 - score * score / 2
        case "manhattan":
            return 1 / (1 + max(score, 0.0))
    return min(score, 1.0)
