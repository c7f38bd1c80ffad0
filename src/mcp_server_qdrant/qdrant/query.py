"""One collection's native queries: fused candidates, exact leg scores, probes, payloads."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.datatypes import (
    Candidate,
    DenseLeg,
    LegQuery,
    Payload,
    PointId,
    SparseLeg,
    Target,
)
from mcp_server_qdrant.errors import RequestError, UnknownCollection
from mcp_server_qdrant.qdrant.client import foreign_errors
from mcp_server_qdrant.qdrant.edge import EdgeClient
from mcp_server_qdrant.qdrant.filters import parse

RRF_K = 60
TIES = 4

# Exact scores even where vectors are quantised or indexed: the candidates are few.
_EXACT = models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))
_RRF = models.RrfQuery(rrf=models.Rrf(k=RRF_K))


class Queries:
    """The read side of the engine, one collection at a time."""

    def __init__(self, client: AsyncQdrantBase) -> None:
        self._client = client
        self._prefetch: models.Prefetch | None = None
        self._weighted = True

    def prepare(self, raw: Mapping[str, Any] | None) -> models.Filter | None:
        """A caller's filter, checked once per search. Raises InvalidFilter."""
        return parse(raw)

    async def search(
        self,
        target: Target,
        query: LegQuery,
        *,
        depth: int,
        condition: models.Filter | None,
        with_payload: bool,
    ) -> tuple[list[Candidate], Mapping[PointId, float], Mapping[PointId, float]]:
        """The fused candidates, best first, and their exact (cosine, BM25) scores by id."""
        with_payload = with_payload or bool(query.tags)  # who carries a tag counts at once
        if isinstance(self._client, EdgeClient):
            return await self._search_in_one_trip(
                self._client, target, query, depth, condition, with_payload=with_payload
            )
        candidates = await self.candidates(
            target, query, depth=depth, condition=condition, with_payload=with_payload
        )
        if not candidates:
            return [], {}, {}
        ids = [candidate.id for candidate in candidates]
        return candidates, *await self.leg_scores(target, query, ids)

    async def _search_in_one_trip(
        self,
        client: EdgeClient,
        target: Target,
        query: LegQuery,
        depth: int,
        condition: models.Filter | None,
        *,
        with_payload: bool,
    ) -> tuple[list[Candidate], Mapping[PointId, float], Mapping[PointId, float]]:
        legs = self._prefetches(_legs(target, query), depth, condition)
        rows = await client.scored_points(
            target.collection,
            legs,
            k=RRF_K,
            limit=depth,
            with_payload=with_payload,
            weights=_weights(target, query),
            unscored=_tag_legs(legs, query.tags),
        )
        scores: list[dict[PointId, float]] = [
            {row[0]: score for row in rows if (score := row[3][leg]) is not None}
            for leg in range(len(legs))
        ]
        candidates = [Candidate(point, rrf, payload) for point, payload, rrf, _ in rows]
        return candidates, *_by_leg(target, query, scores)

    def _prefetches(
        self,
        legs: Sequence[tuple[Any, str | None]],
        depth: int,
        condition: models.Filter | None,
    ) -> list[models.Prefetch]:
        return [
            self._dense_prefetch(vector, using, depth, condition)
            if isinstance(vector, list)
            else models.Prefetch(query=vector, using=using, limit=depth, filter=condition)
            for vector, using in legs
        ]

    async def candidates(
        self,
        target: Target,
        query: LegQuery,
        *,
        depth: int,
        condition: models.Filter | None,
        with_payload: bool,
    ) -> list[Candidate]:
        """The `depth` best points by server-side RRF (k=60) over both legs, best first.

        RRF ties come back in random order, so a few more are asked for and cut here by
        (-score, id): the same request gives the same candidates.
        """
        legs = _legs(target, query)
        if len(legs) == 1 and not query.tags:
            return await self._of_one_leg(target, legs[0], depth, condition, with_payload)
        prefetch = self._prefetches(legs, depth, condition)
        points = await self._fused(
            target,
            [*prefetch, *_tag_legs(prefetch, query.tags)],
            _weights(target, query),
            limit=depth + TIES,
            with_payload=with_payload,
        )
        found = [Candidate(point.id, point.score, point.payload) for point in points]
        found.sort(key=lambda candidate: (-candidate.rrf, str(candidate.id)))
        return found[:depth]

    async def _of_one_leg(
        self,
        target: Target,
        leg: tuple[Any, str | None],
        depth: int,
        condition: models.Filter | None,
        with_payload: bool,  # noqa: FBT001
    ) -> list[Candidate]:
        with foreign_errors(target.collection):
            response = await self._client.query_points(
                target.collection,
                query=leg[0],
                using=leg[1],
                limit=depth,
                query_filter=condition,
                with_payload=with_payload,
            )
        points: list[Any] = response.points
        return [
            Candidate(point.id, 1 / (RRF_K + rank), point.payload)
            for rank, point in enumerate(points)
        ]

    async def _fused(
        self,
        target: Target,
        prefetch: list[models.Prefetch],
        weights: list[float] | None,
        *,
        limit: int,
        with_payload: bool,
    ) -> list[Any]:
        """The points by RRF; without the weights where a server is too old to take them."""
        if not self._weighted:
            weights = None
        rrf = models.RrfQuery(rrf=models.Rrf(k=RRF_K, weights=weights)) if weights else _RRF
        try:
            with foreign_errors(target.collection):
                response = await self._client.query_points(
                    target.collection,
                    prefetch=prefetch,
                    query=rrf,
                    limit=limit,
                    with_payload=with_payload,
                )
        except UnknownCollection:
            raise
        except RequestError:
            if not weights:
                raise
            found = await self._fused(
                target, prefetch, None, limit=limit, with_payload=with_payload
            )
            self._weighted = False  # it was the weights
            return found
        return list(response.points)

    def _dense_prefetch(
        self, vector: list[float], using: str | None, depth: int, condition: models.Filter | None
    ) -> models.Prefetch:
        """The same object for each collection of a search, so that its vector is sent once."""
        known = self._prefetch
        if (
            known is None
            or known.query is not vector
            or (known.using, known.limit) != (using, depth)
            or known.filter is not condition
        ):
            known = self._prefetch = models.Prefetch(using=using, limit=depth, filter=condition)
            known.query = vector  # as it is: validation would copy it
        return known

    async def leg_scores(
        self, target: Target, query: LegQuery, ids: Sequence[PointId]
    ) -> tuple[dict[PointId, float], dict[PointId, float]]:
        """Exact scores of the named points on each leg: (cosine, BM25), by id, in one trip.

        A point without the vector, or sharing no term with the query, is absent.
        """
        only = models.Filter(must=[models.HasIdCondition(has_id=list(ids))])
        requests = []
        for vector, using in _legs(target, query):
            request = models.QueryRequest(using=using, filter=only, params=_EXACT, limit=len(ids))
            request.query = vector  # as it is: validation would copy it
            requests.append(request)
        with foreign_errors(target.collection):
            answers = await self._client.query_batch_points(target.collection, requests)
        found: list[list[Any]] = [answer.points for answer in answers]
        scores = [{point.id: point.score for point in points} for points in found]
        return _by_leg(target, query, scores)

    async def probe(self, target: Target, terms: Sequence[int]) -> dict[int, float]:
        """The engine's own idf of each term in this collection; absent terms are left out.

        A query of one term with weight 1 scores idf(t) * stored value, and the value comes with
        the vector. All probes travel in one batch.
        """
        leg = target.sparse
        assert leg is not None
        requests = [
            models.QueryRequest(
                query=models.SparseVector(indices=[term], values=[1.0]),
                using=leg.vector,
                limit=1,
                with_vector=[leg.vector],
            )
            for term in terms
        ]
        with foreign_errors(target.collection):
            answers = await self._client.query_batch_points(target.collection, requests)
        found: dict[int, float] = {}
        for term, answer in zip(terms, answers, strict=True):
            if answer.points:
                value = _stored(answer.points[0].vector, leg, term)
                if value > 0:
                    found[term] = answer.points[0].score / value
        return found

    async def payloads(self, target: Target, ids: Sequence[PointId]) -> dict[PointId, Payload]:
        """The payloads of the named points, by id."""
        with foreign_errors(target.collection):
            records: list[Any] = await self._client.retrieve(
                target.collection, ids, with_payload=True
            )
        return {record.id: record.payload or {} for record in records}


def _legs(target: Target, query: LegQuery) -> list[tuple[Any, str | None]]:
    """The (query vector, vector name) pairs to search, dense first; an unnamed vector is None."""
    legs: list[tuple[Any, str | None]] = []
    if target.dense is not None and query.dense is not None:
        legs.append((query.dense, target.dense.vector or None))
    if target.sparse is not None and query.sparse is not None:
        sparse = query.sparse
        vector = models.SparseVector(indices=list(sparse.indices), values=list(sparse.values))
        legs.append((vector, target.sparse.vector))
    return legs


def _weights(target: Target, query: LegQuery) -> list[float] | None:
    """The fusion's weights in the order of the legs asked, the tag leg last."""
    if query.weights is None:
        return None
    dense, sparse, tags = query.weights
    return [
        *([dense] if target.dense is not None and query.dense is not None else []),
        *([sparse] if target.sparse is not None and query.sparse is not None else []),
        *([tags] if query.tags else []),
    ]


@lru_cache(maxsize=64)
def _carrying(tags: tuple[tuple[str, str], ...]) -> models.Filter:
    """That a point carries one of the tags (payload key, value)."""
    keys = dict.fromkeys(key for key, _ in tags)
    return models.Filter(
        should=[
            models.FieldCondition(
                key=key, match=models.MatchAny(any=[value for k, value in tags if k == key])
            )
            for key in keys
        ]
    )


def _tag_legs(
    legs: Sequence[models.Prefetch], tags: Sequence[tuple[str, str]]
) -> list[models.Prefetch]:
    """The first leg once more, over the points that carry one of the tags."""
    if not tags or not legs:
        return []
    first = legs[0]
    carry = _carrying(tuple(tags))
    only = models.Filter(must=[carry, first.filter]) if first.filter else carry
    leg = models.Prefetch(using=first.using, limit=first.limit, filter=only)
    leg.query = first.query  # as it is: validation would copy it
    return [leg]


def _by_leg(
    target: Target, query: LegQuery, scores: list[dict[PointId, float]]
) -> tuple[dict[PointId, float], dict[PointId, float]]:
    """The scores of the legs that were searched as (cosine, BM25)."""
    cosines: dict[PointId, float] = {}
    if target.dense is not None and query.dense is not None:
        leg = target.dense
        cosines = {point: cosine(score, leg) for point, score in scores.pop(0).items()}
    return cosines, scores[0] if scores else {}


def _stored(vector: Any, leg: SparseLeg, term: int) -> float:
    sparse = vector.get(leg.vector) if isinstance(vector, dict) else None
    if not isinstance(sparse, models.SparseVector):
        return 0.0
    return dict(zip(sparse.indices, sparse.values, strict=True)).get(term, 0.0)


def cosine(score: float, leg: DenseLeg) -> float:
    """The cosine similarity behind a dense score, for unit vectors, whatever the distance.

    Euclid: |a - b|^2 = 2 - 2 cos. Manhattan has no such identity; 1 / (1 + d) keeps its order.
    """
    match leg.distance:
        case "euclid":
            return 1 - score * score / 2
        case "manhattan":
            return 1 / (1 + max(score, 0.0))
    return min(score, 1.0) if math.isfinite(score) else 0.0
