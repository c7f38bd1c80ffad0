"""The queries of a search: fused candidates, exact leg scores, probes and payloads."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import (
    RRF_K,
    Candidate,
    DenseLeg,
    Document,
    LegQuery,
    Legs,
    Payload,
    PointId,
    SparseLeg,
    Target,
)
from mcp_server_qdrant.core.dates import DATES, Period
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import uuid_text
from mcp_server_qdrant.qdrant.filters import among, both, dated, equal, parse
from mcp_server_qdrant.qdrant.payload import DOCUMENT_KEY, VERSION_KEY, judge, parts_in


class Leg(NamedTuple):
    """A query, and the name of the vectors that it is compared with."""

    query: Any
    using: str | None


# The scores of quantised vectors are approximate, unless they are computed again. Where a filter
# leaves few of many points, the graph alone finds too few of them (docs/server.md).
_RESCORED = models.SearchParams(
    quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0),
    acorn=models.AcornSearchParams(enable=True),
)
OVER = 10  # candidates more than are wanted: ties of RRF come back in random order
# Few points need no index.
_EXACT = models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))


class Queries:
    """The read side of a Qdrant server, one collection per trip.

    `dates` are the paths of dates in a collection that has no index of any.
    """

    def __init__(
        self,
        client: AsyncQdrantBase,
        dates: Sequence[str] = DATES,
        paths: Sequence[str] | None = None,
    ) -> None:
        """`paths` are the fields of candidates' payloads that are read; None: all."""
        self._client = client
        self._fields = models.PayloadSelectorInclude(include=list(paths)) if paths else True
        self.partial = bool(paths)
        self._dates = tuple(dates)

    def prepare(
        self, raw: Mapping[str, Any] | None, within: Document | None = None
    ) -> models.Filter | None:
        """A caller's filter, checked once per search, and that a point is of a text.

        Raises InvalidFilter.
        """
        parsed = parse(raw)
        return both(of_text(within), parsed) if within else parsed

    def without(
        self, condition: models.Filter | None, replaced: Iterable[Document]
    ) -> models.Filter | None:
        """The condition, and that a point is no further part of these versions of texts.

        A first part is: its version may be the present one by now.
        """
        versions = {
            (doc.document, doc.version, str(doc.head))
            for doc in replaced
            if doc.document and doc.version
        }
        if not versions:
            return condition
        parts = [
            models.Filter(
                must=[equal(DOCUMENT_KEY, document), equal(VERSION_KEY, version)],
                must_not=[among([head])],
            )
            for document, version, head in sorted(versions)
        ]
        return both(models.Filter(must_not=parts), condition)

    def trips(self, targets: Sequence[Target]) -> list[Sequence[Target]]:
        """The targets in groups that are asked together: here each by itself."""
        return [[target] for target in targets]

    async def search(
        self,
        asked: Sequence[tuple[Target, LegQuery]],
        *,
        depth: int,
        condition: models.Filter | None,
        period: Period | None = None,
    ) -> list[Legs | QdrantMcpError]:
        """For each target the fused candidates, best first, and their exact leg scores by id.

        An error that is raised concerns all targets, one in the answer concerns its target.
        """
        answers: list[Legs | QdrantMcpError] = []
        for target, query in asked:
            narrowed = dated(condition, period, target.dates or self._dates)
            answers.append(await self._search(target, query, depth, narrowed))
        return answers

    async def _search(
        self, target: Target, query: LegQuery, depth: int, condition: models.Filter | None
    ) -> Legs:
        """The `depth` best points by the server's RRF over the legs, and their scores on each."""
        legs = _legs(target, query)
        prefetches = [_prefetch(leg, condition, depth) for leg in legs]
        if query.tags:
            prefetches.append(_prefetch(legs[0], carrying(query.tags, condition), depth))
        fusion = models.QueryRequest.model_construct(
            prefetch=prefetches,
            query=models.RrfQuery(rrf=models.Rrf(k=RRF_K)),
            limit=depth + OVER,
            with_payload=self._fields,
        )
        (found,) = await self._points(target, [fusion])
        best = sorted(found, key=lambda point: (-point.score, str(point.id)))[:depth]
        candidates = [Candidate(p.id, p.score, p.payload or {}) for p in best]
        scores = await self._scores(target, legs, candidates)
        return candidates, *by_leg(target, query, scores), None

    async def _scores(
        self, target: Target, legs: Sequence[Leg], candidates: Sequence[Candidate]
    ) -> list[dict[PointId, float]]:
        """The exact scores of the candidates on each leg, by id, in one trip.

        A point without the vector, or sharing no term with the query, has none. With them come the
        first parts of texts, which tell whether a further part is of the present version.
        """
        points = [candidate.id for candidate in candidates]
        scores: list[dict[PointId, float]] = [{} for _ in legs]
        if not points:
            return scores
        asked = [_request(leg.query, leg.using, _only(points), len(points)) for leg in legs]
        parts = parts_in(target.collection, {c.id: c.payload for c in candidates})
        heads = _heads(parts)
        found = await self._points(target, [*asked, *heads])
        for known, exact in zip(scores, found, strict=False):
            known.update({point.id: point.score for point in exact})
        if heads:
            judge(parts, {point.id: point.payload for point in found[-1]})
        return scores

    async def _points(self, target: Target, requests: Sequence[Any]) -> list[list[Any]]:
        """The points that answer each of the requests, best first."""
        answers = await self._client.query_batch_points(target.collection, requests)
        return [answer.points for answer in answers]

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
        requests = [_probing(term, leg.vector) for term in terms]
        found: dict[int, float] = {}
        for term, points in zip(terms, await self._points(target, requests), strict=True):
            if points:
                value = _stored(points[0].vector, leg, term)
                if value > 0:
                    found[term] = points[0].score / value
        return found

    async def payloads(
        self,
        asked: Sequence[tuple[Target, Sequence[PointId]]],
    ) -> list[Mapping[PointId, Payload] | QdrantMcpError]:
        """For each target the payloads of the named points by id."""
        return [await self._payloads(target, ids) for target, ids in asked]

    async def _payloads(self, target: Target, ids: Sequence[PointId]) -> dict[PointId, Payload]:
        request = models.QueryRequest.model_construct(
            filter=_only(ids), limit=len(ids), with_payload=True
        )
        (points,) = await self._points(target, [request])
        return {point.id: point.payload or {} for point in points}


def _request(
    vector: Any, using: str | None, where: models.Filter, limit: int
) -> models.QueryRequest:
    """A request as it is, for exact scores: validation would copy the vector."""
    return models.QueryRequest.model_construct(
        query=vector, using=using, filter=where, limit=limit, params=_EXACT, with_payload=False
    )


def _prefetch(leg: Leg, where: models.Filter | None, limit: int) -> models.Prefetch:
    """The best points of a leg."""
    return models.Prefetch.model_construct(
        query=leg.query, using=leg.using, filter=where, limit=limit, params=_RESCORED
    )


def _heads(parts: Sequence[tuple[Any, int]]) -> list[models.QueryRequest]:
    """The request for the first parts of texts, by their number."""
    firsts = [uuid_text(first) for first in sorted({first for _, first in parts})]
    if not firsts:
        return []
    request = models.QueryRequest.model_construct(
        filter=_only(firsts), limit=len(firsts), with_payload=["doc.version", "doc.chunks"]
    )
    return [request]


def of_text(text: Document) -> models.Filter:
    """The points that a text consists of."""
    if text.document is None:
        return _only([text.id])
    return models.Filter(must=[equal(DOCUMENT_KEY, text.document)])


def _probing(term: int, using: str) -> models.QueryRequest:
    return models.QueryRequest.model_construct(
        query=_sparse([term], [1.0]), using=using, limit=1, with_vector=[using]
    )


def _sparse(indices: Sequence[int], values: Sequence[float]) -> models.SparseVector:
    return models.SparseVector.model_construct(indices=list(indices), values=list(values))


def _only(points: Sequence[PointId]) -> models.Filter:
    """These points and no others."""
    these = models.HasIdCondition.model_construct(has_id=[*points])
    return models.Filter.model_construct(must=[these])


def _legs(target: Target, query: LegQuery) -> list[Leg]:
    """The legs to search, dense first; the name of an unnamed vector is None."""
    legs: list[Leg] = []
    if target.dense is not None and query.dense is not None:
        legs.append(Leg(query.dense, target.dense.vector or None))
    if target.sparse is not None and query.sparse is not None:
        sparse = query.sparse
        legs.append(Leg(_sparse(sparse.indices, sparse.values), target.sparse.vector))
    return legs


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
    if not math.isfinite(score):
        return 0.0
    match leg.distance:
        case "euclid":
            return 1 - score * score / 2
        case "manhattan":
            return 1 / (1 + max(score, 0.0))
    return min(score, 1.0)
