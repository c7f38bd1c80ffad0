"""The queries of a search: fused candidates with exact leg scores, the idf of terms, payloads.

Collections of one vector space are asked together, all others each by itself. An error concerns
those that were asked together, as EngineTimeout does where they are late.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, TypeVar

from qdrant_client import models

from mcp_server_qdrant.core.context import within
from mcp_server_qdrant.core.datatypes import (
    RRF_K,
    Candidate,
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
from mcp_server_qdrant.qdrant.engine import Answer, Ask, Corpus, Engine, Leg, Plain
from mcp_server_qdrant.qdrant.filters import among, both, dated, equal, one_of, parse
from mcp_server_qdrant.qdrant.payload import DOCUMENT_KEY, VERSION_KEY

AT_ONCE = 64  # trips of one question
DOUBLED = 0.25  # of the depth: that much more with each doubling of the collections of an ask
SECONDS = 30.0  # of a question that nothing else limits
LATE = (
    "No answer in time: the engine is busy or still starting. Ask again in a moment, or name fewer "
    "collections."
)

Asked = Sequence[tuple[Target, LegQuery]]

A = TypeVar("A")
T = TypeVar("T")


class Queries:
    """Asks an engine, or a tenant's view of one, for many collections at the same time.

    `dates` are the paths of dates in a collection that has no index of any. `paths` are the fields
    of candidates' payloads that are read; none: all, and `partial` is false.
    """

    def __init__(
        self, client: Engine, dates: Sequence[str] = DATES, paths: Sequence[str] = ()
    ) -> None:
        self._client = client
        self._dates = tuple(dates)
        self._fields = tuple(paths)
        self.partial = bool(paths)

    def prepare(
        self, raw: Mapping[str, Any] | None, within: Document | None = None
    ) -> models.Filter | None:
        """A caller's filter, checked once per search, and that a point is of a text.

        Raises InvalidFilter.
        """
        parsed = parse(raw)
        return both(_of_text(within), parsed) if within else parsed

    def without(
        self, condition: models.Filter | None, replaced: Iterable[Document]
    ) -> models.Filter | None:
        """The condition, and that a point is no further part of these versions of texts.

        A first part is: its version may be the present one by now.
        """
        known = [doc for doc in replaced if doc.document and doc.version]
        if not known:
            return condition
        parts = models.Filter(
            must=[
                one_of(DOCUMENT_KEY, sorted({str(doc.document) for doc in known})),
                one_of(VERSION_KEY, sorted({str(doc.version) for doc in known})),
            ],
            must_not=[among(sorted({str(doc.head) for doc in known}))],
        )
        return both(models.Filter(must_not=[parts]), condition)

    async def search(
        self,
        asked: Asked,
        *,
        depth: int,
        condition: models.Filter | None,
        period: Period | None = None,
        seconds: float = SECONDS,
    ) -> tuple[list[Scored], dict[str, QdrantMcpError]]:
        """The candidates of the targets, and the errors of those that failed, by collection.

        `depth` is for a target alone. Of many together a few more are fetched, as one large
        collection of their points would need.
        """

        @cache  # made once for all that share it
        def where(dates: tuple[str, ...], tags: tuple[tuple[str, str], ...]) -> Plain | None:
            narrowed = dated(condition, period, dates)
            narrowed = _carrying(tags, narrowed) if tags else narrowed
            return None if narrowed is None else plain(narrowed)

        groups, searched = _together(asked), dict[Any, list[str]]()
        for group in groups:
            searched.setdefault(_corpus(group), []).extend(t.collection for t, _ in group)
        asks = []
        for group in groups:
            (target, query), found = group[0], (one.dates or self._dates for one, _ in group)
            # One that a collection lacks matches nothing there.
            dates = tuple(dict.fromkeys(chain.from_iterable(found))) if period else ()
            tags = tuple(dict.fromkeys(chain.from_iterable(one.tags for _, one in group)))
            legs = _legs(target, query, where(dates, ()), where(dates, tags) if tags else None)
            asks.append(
                Ask(
                    collections=tuple(target.collection for target, _ in group),
                    legs=legs,
                    k=RRF_K,
                    limit=round(depth * (1 + DOUBLED * math.log2(len(group)))),
                    fields=self._fields,
                    corpus=tuple(searched[_corpus(group)]),
                )
            )
        answers = await in_time(asks, self._client.candidates, seconds)
        scored, failed = list[Scored](), dict[str, QdrantMcpError]()
        for group, ask, answer in zip(groups, asks, answers, strict=True):
            if isinstance(answer, QdrantMcpError):
                failed |= dict.fromkeys(ask.collections, answer)
            else:
                failed |= answer.failed
                scored.append(_scored(group, ask, answer))
        return scored, failed

    async def probe(
        self, asked: Sequence[Corpus], seconds: float = SECONDS
    ) -> list[Mapping[int, float] | QdrantMcpError]:
        """For each corpus the engine's own idf of the terms; absent ones are left out."""
        return await in_time(asked, self._client.idfs, seconds)

    async def payloads(
        self, asked: Sequence[tuple[str, Sequence[PointId]]], seconds: float = SECONDS
    ) -> list[Mapping[PointId, Payload] | QdrantMcpError]:
        """For each collection the payloads of the named points by id."""
        return await in_time(asked, self._read, seconds)

    async def _read(self, asked: tuple[str, Sequence[PointId]]) -> Mapping[PointId, Payload]:
        points = await self._client.retrieve(*asked, with_payload=True)
        return {point.id: point.payload or {} for point in points}


async def in_time(
    asked: Sequence[A], ask: Callable[[A], Awaitable[T]], seconds: float
) -> list[T | QdrantMcpError]:
    """What `ask` answers for each item, EngineTimeout where it is late, or our error.

    At most AT_ONCE are under way at the same time.
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


def _together(asked: Asked) -> list[Asked]:
    """The targets that can be asked together: of one space, with the same query for each leg."""
    groups: dict[Any, list[tuple[Target, LegQuery]]] = {}
    for target, query in asked:
        key: Any = target.collection
        if target.space is not None:
            key = target.space, target.dense, id(query.dense), target.sparse, id(query.sparse)
        groups.setdefault(key, []).append((target, query))
    return [*groups.values()]


def _corpus(group: Asked) -> tuple[Any, ...]:
    """What the targets have in common whose terms are weighed together."""
    target, _ = group[0]
    alone = target.collection if target.space is None else None
    return alone, target.space, target.sparse


def _of_text(text: Document) -> models.Filter:
    """The points that a text consists of."""
    of = among([text.id]) if text.document is None else equal(DOCUMENT_KEY, text.document)
    return models.Filter(must=[of])


def _carrying(tags: Sequence[tuple[str, str]], condition: models.Filter | None) -> models.Filter:
    """The points that carry one of the tags (payload key, value) and meet the condition."""
    keys = dict.fromkeys(key for key, _ in tags)
    either = [one_of(key, (value for k, value in tags if k == key)) for key in keys]
    return both(models.Filter(should=either), condition)


def _legs(target: Target, query: LegQuery, where: Any, tagged: Any) -> tuple[Leg, ...]:
    """The legs to search, dense first; one over tags only ranks."""
    legs: list[Leg] = []
    if target.dense is not None and query.dense is not None:
        legs.append(Leg(target.dense.vector, query.dense, where))
    if target.sparse is not None and (sparse := query.sparse) and sparse.indices:
        words = {"indices": list(sparse.indices), "values": list(sparse.values)}
        legs.append(Leg(target.sparse.vector, words, where))
    if legs and tagged is not None:
        legs.append(replace(legs[0], where=tagged, scored=False))
    return tuple(legs)


def _scored(group: Asked, ask: Ask, answer: Answer) -> Scored:
    """The candidates with the scores of the legs that were searched."""
    target, query = group[0]
    dense = target.dense if query.dense is not None else None
    words = target.sparse is not None and query.sparse is not None
    candidates = []
    for found in answer.points:
        scores = iter(found.scores)
        cos = None if dense is None else cosine(next(scores), dense)
        bm25 = next(scores, None) or 0.0 if words else None
        place = found.collection, found.id
        candidates.append(Candidate(*place, found.rrf, cos, bm25, found.payload, found.current))
    answered = [target for target, _ in group if target.collection not in answer.failed]
    full = len(candidates) >= ask.limit
    return Scored(answered, candidates, full, answer.damage)


def cosine(score: float | None, leg: DenseLeg) -> float:
    """The cosine similarity behind a dense score, for unit vectors, whatever the distance.

    0 of a point without the vector.

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
