"""The queries of a search: fused candidates with exact leg scores, the idf of terms, payloads.

An answer is one for each collection that was asked, in order. An error in it concerns that
collection only, as EngineTimeout does where it is late.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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
from mcp_server_qdrant.qdrant.filters import among, both, dated, equal, one_of, parse
from mcp_server_qdrant.qdrant.payload import DOCUMENT_KEY, VERSION_KEY

# The embedded engine is asked for many collections in a trip, in so many trips: the answers to one
# are read while it works on the next, and a collection that hangs takes few others along.
TRIPS = 4
TOGETHER = 16  # collections that one trip asks in any case
AT_ONCE = 64  # trips of one question
SECONDS = 30.0  # of a question that nothing else limits
LATE = (
    "No answer in time: the engine is busy or still starting. Ask again in a moment, or name fewer "
    "collections."
)

A = TypeVar("A")
T = TypeVar("T")


class Queries:
    """Asks a Qdrant server, or the embedded engine, for many collections at the same time.

    `client` answers `hybrid`, as `SearchClient` and `EdgeClient` do, or a tenant's view of one.
    `dates` are the paths of dates in a collection that has no index of any. `paths` are the fields
    of candidates' payloads that are read; none: all, and `partial` is false. `together`: many
    collections are asked in one trip, not each by itself.
    """

    def __init__(
        self,
        client: Any,
        dates: Sequence[str] = DATES,
        paths: Sequence[str] = (),
        *,
        together: bool = False,
    ) -> None:
        self._client = client
        self._dates = tuple(dates)
        self._fields = (paths,) if paths else ()
        self._together = together
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
        asked: Sequence[tuple[Target, LegQuery]],
        *,
        depth: int,
        condition: models.Filter | None,
        period: Period | None = None,
        seconds: float = SECONDS,
    ) -> list[Scored | QdrantMcpError]:
        """For each target the fused candidates, best first, and their exact leg scores by id."""

        @cache  # made once for all collections that share it
        def where(dates: Sequence[str], tags: Sequence[tuple[str, str]]) -> Any:
            narrowed = dated(condition, period, dates)
            narrowed = _carrying(tags, narrowed) if tags else narrowed
            return None if narrowed is None else plain(narrowed)

        legs = []
        for target, query in asked:
            dates = (target.dates or self._dates) if period else ()
            tagged = where(dates, query.tags) if query.tags else None
            legs.append((target.collection, _legs(target, query, where(dates, ()), tagged)))
        answers = await self._ask("candidates", seconds, legs, RRF_K, depth, *self._fields)
        return [
            answer if isinstance(answer, QdrantMcpError) else _found(target, query, *answer)
            for (target, query), answer in zip(asked, answers, strict=True)
        ]

    async def probe(
        self, asked: Sequence[tuple[Target, Sequence[int]]], seconds: float = SECONDS
    ) -> list[Mapping[int, float] | QdrantMcpError]:
        """For each target the engine's own idf of the terms; absent ones are left out."""
        terms = [(t.collection, t.sparse.vector, list(terms)) for t, terms in asked if t.sparse]
        return await self._ask("idfs", seconds, terms)

    async def payloads(
        self, asked: Sequence[tuple[str, Sequence[PointId]]], seconds: float = SECONDS
    ) -> list[Mapping[PointId, Payload] | QdrantMcpError]:
        """For each collection the payloads of the named points by id.

        Where a search gives candidates without payloads, further parts of texts say whether they
        are current (`doc.current`).
        """
        return await self._ask("payloads", seconds, asked)

    async def _ask(
        self, question: str, seconds: float, asked: Sequence[Any], *more: Any
    ) -> list[Any]:
        """The answers to a question, in as many trips as it takes."""
        size = max(TOGETHER, -(-len(asked) // TRIPS)) if self._together else 1
        trips = [asked[start : start + size] for start in range(0, len(asked), size)]
        hybrid = self._client.hybrid
        return await in_time(trips, lambda some: hybrid(question, some, *more), seconds)


async def in_time(
    trips: Sequence[Sequence[A]],
    ask: Callable[[Sequence[A]], Awaitable[Sequence[T | QdrantMcpError]]],
    seconds: float,
) -> list[T | QdrantMcpError]:
    """What `ask` answers for each item of the trips, EngineTimeout for those of a late trip.

    At most AT_ONCE trips are under way at the same time. An error that is raised concerns its trip.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def trip(asked: Sequence[A]) -> Sequence[T | QdrantMcpError]:
        try:
            async with asyncio.timeout(seconds), gate:
                return await ask(asked)
        except TimeoutError:
            return [EngineTimeout(LATE)] * len(asked)
        except QdrantMcpError as error:
            return [error] * len(asked)

    with within(seconds):
        try:
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(trip(some)) for some in trips]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
    return [*chain.from_iterable(one.result() for one in asked)]


def _of_text(text: Document) -> models.Filter:
    """The points that a text consists of."""
    of = among([text.id]) if text.document is None else equal(DOCUMENT_KEY, text.document)
    return models.Filter(must=[of])


def _carrying(tags: Sequence[tuple[str, str]], condition: models.Filter | None) -> models.Filter:
    """The points that carry one of the tags (payload key, value) and meet the condition."""
    keys = dict.fromkeys(key for key, _ in tags)
    either = [one_of(key, (value for k, value in tags if k == key)) for key in keys]
    return both(models.Filter(should=either), condition)


def _legs(target: Target, query: LegQuery, where: Any, tagged: Any) -> list[tuple[Any, ...]]:
    """The legs to search, dense first, as `hybrid` takes them; one over tags only ranks."""
    legs: list[tuple[Any, ...]] = []
    if target.dense is not None and query.dense is not None:
        legs.append((target.dense.vector, query.dense, where, True))
    if target.sparse is not None and (sparse := query.sparse) and sparse.indices:
        words = {"indices": list(sparse.indices), "values": list(sparse.values)}
        legs.append((target.sparse.vector, words, where, True))
    if legs and tagged is not None:
        legs.append((*legs[0][:2], tagged, False))
    return legs


def _found(
    target: Target,
    query: LegQuery,
    ids: Sequence[PointId],
    rrf: Sequence[float],
    legs: Sequence[Sequence[float | None]],
    payloads: Sequence[Payload | None] | None,
    damage: str | None,
) -> Scored:
    """The candidates with the scores of the legs that were searched."""
    scores, nothing = [*legs], [None] * len(ids)
    cosines: Sequence[float | None] = nothing
    words: Sequence[float | None] = nothing
    if (leg := target.dense) is not None and query.dense is not None:
        cosines = [0.0 if one is None else cosine(one, leg) for one in scores.pop(0)]
    if target.sparse is not None and query.sparse is not None:
        words = [one or 0.0 for one in (scores[0] if scores else nothing)]
    rows = zip(ids, rrf, cosines, words, payloads or nothing, strict=True)
    return Scored(target, [Candidate(*row) for row in rows], damage)


def cosine(score: float, leg: DenseLeg) -> float:
    """The cosine similarity behind a dense score, for unit vectors, whatever the distance.

    Euclid: |a - b|^2 = 2 - 2 cos. Manhattan has no such identity; 1 / (1 + d) keeps its order.
    """
    if not math.isfinite(score):
        return 0.0
    match leg.distance:
        case "euclid":
            return 1 - score * score / 2
        case "manhattan":
            return 1 / (1 + max(score, 0.0))
    return min(score, 1.0)
