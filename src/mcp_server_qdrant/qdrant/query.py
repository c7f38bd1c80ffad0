"""The queries of a search: fused candidates, exact leg scores, probes and payloads."""

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import (
    RRF_K,
    Candidate,
    DenseLeg,
    LegQuery,
    Legs,
    Payload,
    PointId,
    SparseLeg,
    Target,
)
from mcp_server_qdrant.core.dates import DATES, Period
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError, UnknownCollection
from mcp_server_qdrant.qdrant.filters import both, dated, parse
from mcp_server_qdrant.qdrant.inference import as_vector, inference_errors, native
from mcp_server_qdrant.qdrant.payload import VERSION_KEY
from mcp_server_qdrant.qdrant.tenant.guard import check

TIES = 4

# Exact scores even where vectors are quantised or indexed: the candidates are few.
_EXACT = models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))


class Queries:
    """The read side of a Qdrant server, one collection per trip.

    `hidden` are the fields that a caller's filter may not ask about, `dates` the paths of dates in
    a collection that has no index of any.
    """

    def __init__(
        self, client: AsyncQdrantBase, hidden: Sequence[str] = (), dates: Sequence[str] = DATES
    ) -> None:
        self._client = client
        self._hidden = tuple(hidden)
        self._dates = tuple(dates)
        self._takes_weights = True

    def prepare(self, raw: Mapping[str, Any] | None) -> models.Filter | None:
        """A caller's filter, checked once per search. Raises InvalidFilter."""
        parsed = parse(raw)
        check(parsed, self._hidden)
        return parsed

    def without(
        self, condition: models.Filter | None, versions: Collection[str]
    ) -> models.Filter | None:
        """The condition, without the points of these versions."""
        if not versions:
            return condition
        among = models.MatchAny(any=sorted(versions))
        kept = [models.FieldCondition(key=VERSION_KEY, match=among)]
        return models.Filter(must=[condition] if condition else None, must_not=kept)

    def trips(self, targets: Sequence[Target]) -> list[Sequence[Target]]:
        """The targets in groups that are asked together: here each by itself."""
        return [[target] for target in targets]

    async def search(
        self,
        asked: Sequence[tuple[Target, LegQuery]],
        *,
        depth: int,
        condition: models.Filter | None,
        with_payload: bool,
        period: Period | None = None,
    ) -> list[Legs | QdrantMcpError]:
        """For each target the fused candidates, best first, and their exact leg scores by id.

        An error that is raised concerns all targets, one in the answer concerns its target.
        """
        answers: list[Legs | QdrantMcpError] = []
        for target, query in asked:
            with inference_errors(query.dense):
                candidates = await self.candidates(
                    target,
                    query,
                    depth=depth,
                    condition=dated(condition, period, target.dates or self._dates),
                    with_payload=with_payload or bool(query.tags),  # its carriers count at once
                )
                ids = [candidate.id for candidate in candidates]
                scores = await self.leg_scores(target, query, ids) if ids else ({}, {})
            answers.append((candidates, *scores, None))
        return answers

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
            ((vector, using),) = legs
            response = await self._client.query_points(
                target.collection,
                query=vector,
                using=using,
                limit=depth,
                query_filter=condition,
                with_payload=with_payload,
            )
            ranked: list[Any] = response.points
            return [Candidate(p.id, 1 / (RRF_K + n), p.payload) for n, p in enumerate(ranked)]
        prefetch = [_prefetch(vector, using, depth, condition) for vector, using in legs]
        if legs and query.tags:
            prefetch.append(_prefetch(*legs[0], depth, carrying(query.tags, condition)))
        fused = partial(
            self._client.query_points,
            target.collection,
            prefetch=prefetch,
            limit=depth + TIES,
            with_payload=with_payload,
        )
        points = await self._weighted_or_not(fused, weights(target, query))
        found = [Candidate(point.id, point.score, point.payload) for point in points]
        found.sort(key=lambda candidate: (-candidate.rrf, str(candidate.id)))
        return found[:depth]

    async def _weighted_or_not(
        self, fused: Callable[..., Awaitable[Any]], weighted: list[float] | None
    ) -> list[Any]:
        """The points by RRF; without the weights where a server is too old to take them."""
        plain = models.RrfQuery(rrf=models.Rrf(k=RRF_K))
        if not (weighted and self._takes_weights):
            return list((await fused(query=plain)).points)
        try:
            rrf = models.RrfQuery(rrf=models.Rrf(k=RRF_K, weights=weighted))
            return list((await fused(query=rrf)).points)
        except UnknownCollection:
            raise
        except RequestError:
            found = await fused(query=plain)
            self._takes_weights = False  # the weights were the reason
            return list(found.points)

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
        answers = await self._client.query_batch_points(target.collection, requests)
        found: list[list[Any]] = [answer.points for answer in answers]
        scores = [{point.id: point.score for point in points} for points in found]
        return by_leg(target, query, scores)

    async def probe(
        self, asked: Sequence[tuple[Target, Sequence[int]]]
    ) -> list[Mapping[int, float] | QdrantMcpError]:
        """For each target the engine's own idf of the terms; absent ones are left out."""
        return [await self._probe(target, terms) for target, terms in asked]

    async def _probe(self, target: Target, terms: Sequence[int]) -> dict[int, float]:
        """A query of one term with weight 1 scores idf(t) * stored value.

        The value comes with the vector. All probes travel in one batch.
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
        answers = await self._client.query_batch_points(target.collection, requests)
        found: dict[int, float] = {}
        for term, answer in zip(terms, answers, strict=True):
            if answer.points:
                value = _stored(answer.points[0].vector, leg, term)
                if value > 0:
                    found[term] = answer.points[0].score / value
        return found

    async def payloads(
        self,
        asked: Sequence[tuple[Target, Sequence[PointId]]],
        fields: Sequence[str] | None = None,
    ) -> list[Mapping[PointId, Payload] | QdrantMcpError]:
        """For each target the payloads of the named points by id, whole or these fields of them."""
        return [await self._payloads(target.collection, ids, fields) for target, ids in asked]

    async def whole(self, target: Target, ids: Sequence[PointId]) -> Mapping[PointId, Payload]:
        """The whole payloads of points of which only a part was read; a server reads no parts."""
        return await self._payloads(target.collection, ids, None)

    async def _payloads(
        self, collection: str, ids: Sequence[PointId], fields: Sequence[str] | None
    ) -> dict[PointId, Payload]:
        shown = list(fields) if fields else True
        records: list[Any] = await self._client.retrieve(collection, ids, with_payload=shown)
        return {record.id: record.payload or {} for record in records}


def _prefetch(
    vector: Any, using: str | None, depth: int, condition: models.Filter | None
) -> models.Prefetch:
    prefetch = models.Prefetch(using=using, limit=depth, filter=condition)
    prefetch.query = vector  # as it is: validation would copy it
    return prefetch


def _legs(target: Target, query: LegQuery) -> list[tuple[Any, str | None]]:
    """The (query vector, vector name) pairs to search, dense first; an unnamed vector is None."""
    legs: list[tuple[Any, str | None]] = []
    if target.dense is not None and query.dense is not None:
        legs.append((native(query.dense), target.dense.vector or None))
    if target.sparse is not None and query.sparse is not None:
        legs.append((as_vector(query.sparse), target.sparse.vector))
    return legs


def weights(target: Target, query: LegQuery) -> list[float] | None:
    """The fusion's weights in the order of the legs asked, the tag leg last; None: all alike."""
    if query.weights is None:
        return None
    dense, sparse, tags = query.weights
    asked = [
        *([dense] if target.dense is not None and query.dense is not None else []),
        *([sparse] if target.sparse is not None and query.sparse is not None else []),
        *([tags] if query.tags else []),
    ]
    return asked if len(asked) > 1 else None


def carrying(tags: Sequence[tuple[str, str]], condition: models.Filter | None) -> models.Filter:
    """The points that carry one of the tags (payload key, value) and meet the condition."""
    keys = dict.fromkeys(key for key, _ in tags)
    either = models.Filter(
        should=[
            models.FieldCondition(
                key=key, match=models.MatchAny(any=[value for k, value in tags if k == key])
            )
            for key in keys
        ]
    )
    return both(either, condition)


def by_leg(
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
