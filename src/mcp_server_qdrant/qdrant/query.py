"""The queries of a search: fused candidates, exact leg scores, probes and payloads."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.bm25 import Probed, of_index
from mcp_server_qdrant.core.datatypes import (
    RRF_K,
    Candidate,
    DenseLeg,
    LegQuery,
    Legs,
    Payload,
    PointId,
    Sparse,
    SparseLeg,
    Target,
)
from mcp_server_qdrant.core.dates import DATES, Period
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.qdrant.filters import both, dated, parse
from mcp_server_qdrant.qdrant.inference import inference_errors, native
from mcp_server_qdrant.qdrant.memo import Memo
from mcp_server_qdrant.qdrant.payload import VERSION_KEY
from mcp_server_qdrant.qdrant.tenant.guard import check


class Leg(NamedTuple):
    """A query, and the name of the vectors or the payload key that it is compared with.

    A text index ranks candidates by their collection's own idf: their scores are sums of those of
    the `words`, each with its weight.
    """

    query: Any
    using: str | None
    words: Sequence[tuple[models.TextQuery, float]] = ()


# The scores of quantised vectors are approximate, unless they are computed again. Where a filter
# leaves few of many points, the graph alone finds too few of them (docs/server.md).
_RESCORED = models.SearchParams(
    quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0),
    acorn=models.AcornSearchParams(enable=True),
)
# Few points need no index.
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
        self._requests: Memo[models.QueryRequest] = Memo()  # collections share them

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
            narrowed = dated(condition, period, target.dates or self._dates)
            try:
                answers.append(
                    await self._search(target, query, depth, narrowed, with_payload=with_payload)
                )
            except QdrantMcpError:
                with inference_errors(query.dense):
                    raise
        return answers

    async def _search(
        self,
        target: Target,
        query: LegQuery,
        depth: int,
        condition: models.Filter | None,
        *,
        with_payload: bool,
    ) -> Legs:
        """The `depth` best points by RRF over the legs, which are asked for in one trip."""
        legs = _legs(target, query)
        with_payload |= bool(query.tags)  # who carries a tag counts at once: its payload tells it
        # Little more than that is asked for at once: no second trip for the scores of the others.
        limit = target.points + 1 if depth <= target.points <= 2 * depth else depth
        requests = [
            self._asking(leg.query, leg.using, condition, limit, with_payload) for leg in legs
        ]
        if query.tags:
            tagged = carrying(query.tags, condition)
            first = legs[0]
            requests.append(_request(first.query, first.using, tagged, depth, with_payload=True))
        found = await self._points(target, requests)
        scores = [{point.id: point.score for point in points} for points in found]
        best = fused(scores, weights(target, query), depth)
        del scores[len(legs) :]
        await self._complete(target, legs, scores, list(best), limit)
        if with_payload:
            payloads = {point.id: point.payload for points in found for point in points}
            candidates = [Candidate(point, rrf, payloads[point]) for point, rrf in best.items()]
        else:
            candidates = list(map(Candidate, best, best.values()))
        scores = [{point: leg[point] for point in best if point in leg} for leg in scores]
        return candidates, *by_leg(target, query, scores), None

    def _asking(self, vector: Any, *others: Any) -> models.QueryRequest:
        """A request of a leg; collections share that of a dense vector, and all but the vector."""
        if isinstance(vector, list):
            return self._requests.of((vector, *others), _request)
        return self._requests.of((None, *others), _request).model_copy(update={"query": vector})

    async def _complete(
        self,
        target: Target,
        legs: Sequence[Leg],
        scores: Sequence[dict[PointId, float]],
        points: Sequence[PointId],
        limit: int,
    ) -> None:
        """Add the exact scores of the points that a leg may know and did not give, in one trip.

        One that gave fewer than `limit` has no more. A point without the vector, or sharing no term
        with the query, has no score.
        """
        asked, lacking = [], []
        for leg, known in zip(legs, scores, strict=True):
            complete = len(known) < limit
            if leg.words:
                complete = not known
                known.clear()
            others = [point for point in points if point not in known]
            if complete or not others:
                continue
            only = models.Filter(must=[models.HasIdCondition(has_id=others)])
            for query, weight in leg.words or [(leg.query, 1.0)]:
                asked.append(_request(query, leg.using, only, len(others), params=_EXACT))
                lacking.append((known, weight))
        found = await self._points(target, asked) if asked else []
        for (known, weight), exact in zip(lacking, found, strict=True):
            for point in exact:
                known[point.id] = known.get(point.id, 0.0) + weight * point.score

    async def _points(self, target: Target, requests: Sequence[Any]) -> list[list[Any]]:
        """The points that answer each of the requests, best first."""
        answers = await self._client.query_batch_points(target.collection, requests)
        return [answer.points for answer in answers]

    async def probe(
        self, asked: Sequence[tuple[Target, Probed]]
    ) -> list[Mapping[int, float] | QdrantMcpError]:
        """For each target the engine's own idf of the terms; absent ones are left out."""
        return [await self._probe(target, terms) for target, terms in asked]

    async def _probe(self, target: Target, terms: Probed) -> dict[int, float]:
        """A query of one term with weight 1 scores idf(t) * stored value.

        The value comes with the vector; that of a text index is 1. All probes travel in one batch.
        """
        leg = target.sparse
        assert leg is not None
        by_index = isinstance(terms, Mapping)
        probes = [terms[term] for term in terms] if isinstance(terms, Mapping) else terms
        requests = [self._requests.of((probe, leg.vector), _probing) for probe in probes]
        found: dict[int, float] = {}
        for term, points in zip(terms, await self._points(target, requests), strict=True):
            if points:
                value = 1.0 if by_index else _stored(points[0].vector, leg, term)
                if value > 0:
                    found[term] = points[0].score / value
        return found

    async def payloads(
        self,
        asked: Sequence[tuple[Target, Sequence[PointId]]],
        fields: Sequence[str] | None = None,
    ) -> list[Mapping[PointId, Payload] | QdrantMcpError]:
        """For each target the payloads of the named points by id, whole or these fields of them."""
        return [await self._payloads(target, ids, fields) for target, ids in asked]

    async def whole(self, target: Target, ids: Sequence[PointId]) -> Mapping[PointId, Payload]:
        """The whole payloads of points of which only a part was read; a server reads no parts."""
        return await self._payloads(target, ids, None)

    async def _payloads(
        self, target: Target, ids: Sequence[PointId], fields: Sequence[str] | None
    ) -> dict[PointId, Payload]:
        found: dict[PointId, Payload] = {}
        shown = list(fields) if fields else True
        lacking = list(ids)
        while lacking:
            request = models.QueryRequest.model_construct(
                filter=_only(lacking), limit=len(lacking), with_payload=shown
            )
            (points,) = await self._points(target, [request])
            found |= {point.id: point.payload or {} for point in points}
            # Strict mode may allow fewer at once; of those that are gone there are none.
            left = [point for point in lacking if point not in found]
            lacking = left if len(left) < len(lacking) else []
        return found


def _request(
    vector: Any,
    using: str | None,
    where: models.Filter | None,
    limit: int,
    with_payload: bool = False,  # noqa: FBT001, FBT002  as the parts of a memo come
    params: models.SearchParams = _RESCORED,
) -> models.QueryRequest:
    """A request as it is: validation would copy the vector."""
    return models.QueryRequest.model_construct(
        query=vector,
        using=using,
        filter=where,
        limit=limit,
        params=params,
        with_payload=with_payload,
    )


def _probing(term: int | str, using: str) -> models.QueryRequest:
    if isinstance(term, str):
        return models.QueryRequest.model_construct(query=_text(term, 0, 0), using=using, limit=1)
    return models.QueryRequest.model_construct(
        query=_sparse([term], [1.0]), using=using, limit=1, with_vector=[using]
    )


def _sparse(indices: Sequence[int], values: Sequence[float]) -> models.SparseVector:
    return models.SparseVector.model_construct(indices=list(indices), values=list(values))


def _only(points: Sequence[PointId]) -> models.Filter:
    """These points and no others."""
    these = models.HasIdCondition.model_construct(has_id=[*points])
    return models.Filter.model_construct(must=[these])


def fused(
    legs: Sequence[Iterable[PointId]], weights: Sequence[float] | None, limit: int
) -> dict[PointId, float]:
    """The best `limit` points, each of the best `limit` of a leg, with their RRF.

    It is 1 / ((rank + 1) / w + k - 1), ties by id. As Qdrant fuses, which leaves ties to chance and
    would search each leg twice: its scores are wanted too.
    """
    rrf: dict[PointId, float] = {}
    for leg, weight in zip(legs, weights or [1.0] * len(legs), strict=True):
        for point, share in zip(leg, _shares(weight, limit), strict=False):
            rrf[point] = rrf.get(point, 0.0) + share
    by_id = sorted(rrf, key=str)
    best = sorted(by_id, key=rrf.__getitem__, reverse=True)[:limit]
    return {point: rrf[point] for point in best}


@lru_cache(64)
def _shares(weight: float, count: int) -> tuple[float, ...]:
    return tuple([1 / ((rank + 1) / weight + RRF_K - 1) for rank in range(count)])


def _legs(target: Target, query: LegQuery) -> list[Leg]:
    """The legs to search, dense first; the name of an unnamed vector is None."""
    legs: list[Leg] = []
    if target.dense is not None and query.dense is not None:
        legs.append(Leg(native(query.dense), target.dense.vector or None))
    if target.sparse is not None and query.sparse is not None:
        legs.append(_words(target.sparse, query.sparse))
    return legs


def _words(leg: SparseLeg, query: Sparse) -> Leg:
    if leg.average is None:
        return Leg(_sparse(query.indices, query.values), leg.vector)
    k, b, factor = of_index(leg.average)
    weighed = zip(query.words, query.values, strict=True)
    words = [(_text(word, k, b), factor * value) for word, value in weighed]
    return Leg(_text(" ".join(query.words), k, b), leg.vector, words)


def _text(words: str, k: float, b: float) -> models.TextQuery:
    """BM25 of the words by a text index."""
    scoring = models.Bm25Scoring(bm25=models.Bm25Params(k=k, b=b))
    return models.TextQuery(text=models.TextQueryInput(query=words, scoring=scoring))


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
    if not math.isfinite(score):
        return 0.0
    match leg.distance:
        case "euclid":
            return 1 - score * score / 2
        case "manhattan":
            return 1 / (1 + max(score, 0.0))
    return min(score, 1.0)
