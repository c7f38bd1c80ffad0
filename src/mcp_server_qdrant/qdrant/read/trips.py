"""The queries of a search to the embedded engine: a few trips for all collections together."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import (
    RRF_K,
    Candidate,
    LegQuery,
    Legs,
    Payload,
    PointId,
    Target,
)
from mcp_server_qdrant.core.dates import DATES, Period
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.filters import dated
from mcp_server_qdrant.qdrant.read.query import Queries, by_leg, carrying

Leg = tuple[str, Any, Any, bool]  # name, vector, filter, scored too

# Of many collections so many trips: the answers to one are read while the engine works on the
# next, and a collection that hangs takes few others along.
TRIPS = 4
TOGETHER = 16  # collections that one trip asks in any case


class EdgeQueries(Queries):
    """The read side of the embedded engine, many collections per trip."""

    def __init__(self, client: Any, dates: Sequence[str] = DATES) -> None:
        super().__init__(client, dates)
        self._edge = client  # an EdgeClient, or a tenant's view of one

    def trips(self, targets: Sequence[Target]) -> list[Sequence[Target]]:
        """The targets in groups that are asked together."""
        size = max(TOGETHER, -(-len(targets) // TRIPS))
        return [targets[start : start + size] for start in range(0, len(targets), size)]

    async def search(
        self,
        asked: Sequence[tuple[Target, LegQuery]],
        *,
        depth: int,
        condition: models.Filter | None,
        period: Period | None = None,
    ) -> list[Legs | QdrantMcpError]:
        """For each target the fused candidates, best first, and their exact leg scores by id."""

        @cache  # made once for all collections that share it
        def where(dates: Sequence[str], tags: Sequence[tuple[str, str]]) -> Any:
            narrowed = dated(condition, period, dates)
            narrowed = carrying(tags, narrowed) if tags else narrowed
            return None if narrowed is None else plain(narrowed)

        legs = []
        for target, query in asked:
            dates = (target.dates or self._dates) if period else ()
            tagged = where(dates, query.tags) if query.tags else None
            legs.append((target.collection, _legs(target, query, where(dates, ()), tagged)))
        answers = await self._edge.hybrid("candidates", legs, RRF_K, depth)
        return [
            answer if isinstance(answer, QdrantMcpError) else _found(target, query, answer)
            for (target, query), answer in zip(asked, answers, strict=True)
        ]

    async def probe(
        self, asked: Sequence[tuple[Target, Sequence[int]]]
    ) -> list[Mapping[int, float] | QdrantMcpError]:
        """For each target the engine's own idf of the terms; absent ones are left out."""
        questions = [
            (target.collection, target.sparse.vector, list(terms))
            for target, terms in asked
            if target.sparse
        ]
        answers: list[Any] = await self._edge.hybrid("idfs", questions)
        return answers

    async def payloads(
        self,
        asked: Sequence[tuple[Target, Sequence[PointId]]],
    ) -> list[Mapping[PointId, Payload] | QdrantMcpError]:
        """For each target the payloads by id."""
        named = [(target.collection, ids) for target, ids in asked]
        answers: list[Any] = await self._edge.hybrid("payloads", named)
        return answers


def _legs(target: Target, query: LegQuery, where: Any, tagged: Any) -> list[Leg]:
    """The legs to search, dense first, as the engine host takes them; one over tags only ranks."""
    asked: list[Leg] = []
    if target.dense is not None and query.dense is not None:
        asked.append((target.dense.vector, query.dense, where, True))
    if target.sparse is not None and query.sparse is not None:
        words = list(query.sparse.indices), list(query.sparse.values)
        asked.append((target.sparse.vector, words, where, True))
    if asked and tagged is not None:
        asked.append((*asked[0][:2], tagged, False))
    return asked


def _found(target: Target, query: LegQuery, answer: tuple[Any, ...]) -> Legs:
    ids, rrf, legs, payloads, damage = answer
    candidates = list(map(Candidate, ids, rrf, payloads or [None] * len(ids)))
    scores = [
        {point: score for point, score in zip(ids, leg, strict=True) if score is not None}
        for leg in legs
    ]
    return candidates, *by_leg(target, query, scores), damage
