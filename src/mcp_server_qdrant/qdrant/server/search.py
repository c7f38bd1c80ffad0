"""The questions of a search to a Qdrant server, as JSON: qdrant-client's models cost more time."""

from collections.abc import Mapping, Sequence
from typing import Any

from qdrant_client import models
from typing_extensions import override

from mcp_server_qdrant.core.datatypes import Payload, PointId
from mcp_server_qdrant.qdrant.errors import TranslatedClient
from mcp_server_qdrant.qdrant.payload import judge, parts_in

Plain = Mapping[str, Any]
# Vector name, query vector (a sparse one is {"indices", "values"}), filter, and whether its exact
# scores are wanted.
Leg = tuple[str, Any, Plain | None, bool]

OVER = 10  # candidates more than are wanted: ties of RRF come back in random order
# The scores of quantised vectors are approximate, unless they are computed again. Where a filter
# leaves few of many points, the graph alone finds too few of them (docs/server.md).
_RESCORED = {"quantization": {"rescore": True, "oversampling": 2.0}, "acorn": {"enable": True}}
# Few points need no index.
_EXACT = {"exact": True, "quantization": {"ignore": True}}


class SearchClient(TranslatedClient):
    """qdrant-client's client, which answers the questions of a search as the embedded engine does.

    `guard` is a filter on everything that is read: no other point is found, or moves a score.
    """

    lean = False  # whether requests may be JSON

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._weighed: dict[str, frozenset[str]] = {}  # sparse vectors to which idf is applied

    async def hybrid(
        self,
        question: str,
        asked: Sequence[tuple[Any, ...]],
        *how: Any,
        guard: Plain | None = None,
    ) -> list[Any]:
        """The answer for each of the collections, one trip or two for each."""
        known = {"candidates": self._candidates, "idfs": self._idfs, "payloads": self._payloads}
        answer: Any = known[question]
        return [await answer(guard, *one, *how) for one in asked]

    async def _candidates(
        self,
        guard: Plain | None,
        name: str,
        legs: Sequence[Leg],
        k: int,
        limit: int,
        fields: Sequence[str] = (),
    ) -> tuple[Any, ...]:
        """The best points by the server's RRF over the legs, and their exact scores on each.

        `(ids, rrf, scores per leg, payloads, None)`, best first; payloads with these `fields`, or
        all. A score is None where the point lacks the vector, or shares no term with the query.
        """
        weights = [await self._weights(name, using, guard) for using, *_ in legs]
        prefetch = [
            _near(using, vector)
            | _where(guard, where)
            | {"limit": limit, "params": _RESCORED | idf}
            for (using, vector, where, _), idf in zip(legs, weights, strict=True)
        ]
        fusion = {
            "prefetch": prefetch,
            "query": {"rrf": {"k": k}},
            "limit": limit + OVER,
            "with_payload": list(fields) or True,
        }
        (found,) = await self.batch(name, [fusion])
        best = sorted(found, key=lambda point: (-point.score, str(point.id)))[:limit]
        payloads = {point.id: point.payload or {} for point in best}
        exact = [
            _near(using, vector) | {"params": _EXACT | idf}
            for (using, vector, _, scored), idf in zip(legs, weights, strict=True)
            if scored
        ]
        scores = await self._scores(guard, name, exact, payloads)
        return [*payloads], [point.score for point in best], scores, [*payloads.values()], None

    async def _scores(
        self,
        guard: Plain | None,
        name: str,
        exact: Sequence[dict[str, Any]],
        payloads: Mapping[PointId, Payload],
    ) -> list[list[float | None]]:
        """The exact scores of the candidates on each leg, in one trip.

        With them come the first parts of texts, which tell whether a further part is of the present
        version.
        """
        if not payloads:
            return [[] for _ in exact]
        requests = [leg | _only(guard, [*payloads]) | {"with_payload": False} for leg in exact]
        parts = parts_in(name, payloads)
        if firsts := sorted({first for _, first in parts}):
            said = {"with_payload": ["doc.version", "doc.chunks"]}
            requests.append(_only(guard, firsts) | said)
        found = await self.batch(name, requests)
        judge(parts, {point.id: point.payload for point in found[-1]} if firsts else {})
        legs = [{point.id: point.score for point in leg} for leg in found[: len(exact)]]
        return [[leg.get(point) for point in payloads] for leg in legs]

    async def _idfs(
        self, guard: Plain | None, name: str, using: str, terms: Sequence[int]
    ) -> dict[int, float]:
        """The engine's own idf of terms of a sparse vector; absent ones are left out.

        A query of one term with weight 1 scores idf(t) * stored value; the value comes with the
        vector. All of them travel in one trip.
        """
        shown = {
            "limit": 1,
            "with_vector": [using],
            "params": await self._weights(name, using, guard),
        }
        requests = [
            _near(using, {"indices": [term], "values": [1.0]}) | _where(guard) | shown
            for term in terms
        ]
        found: dict[int, float] = {}
        for term, points in zip(terms, await self.batch(name, requests), strict=True):
            if points and (value := _stored(points[0].vector, using, term)) > 0:
                found[term] = points[0].score / value
        return found

    async def _payloads(
        self, guard: Plain | None, name: str, ids: Sequence[PointId]
    ) -> dict[PointId, Payload]:
        """The payloads of those points that exist, by id."""
        (points,) = await self.batch(name, [_only(guard, ids) | {"with_payload": True}])
        return {point.id: point.payload or {} for point in points}

    async def batch(self, name: str, requests: Sequence[Plain]) -> list[list[Any]]:
        """The points that answer each of the requests, best first."""
        asked: Any = requests
        if not self.lean:
            asked = [models.QueryRequest.model_validate(request) for request in requests]
        return [answer.points for answer in await self.query_batch_points(name, asked)]

    async def _weights(self, name: str, using: str, guard: Plain | None) -> dict[str, Any]:
        """The idf of a sparse vector is of the guarded points: others must not move a score."""
        if guard is None:
            return {}
        if name not in self._weighed:
            await self.get_collection(name)
        if using not in self._weighed[name]:
            return {}
        await self.check_corpus()
        return {"idf": {"corpus": guard}}

    async def check_corpus(self) -> None:
        """Raise EngineFailure where words cannot be weighed over some of the points alone."""

    @override
    async def get_collection(self, collection_name: str, **options: Any) -> models.CollectionInfo:
        info: models.CollectionInfo = await super().get_collection(collection_name, **options)
        vectors = info.config.params.sparse_vectors or {}
        weighed = (n for n, v in vectors.items() if v.modifier == models.Modifier.IDF)
        self._weighed[collection_name] = frozenset(weighed)
        return info


def _near(using: str, vector: Any) -> dict[str, Any]:
    """What asks for the points nearest to a vector; an unnamed vector is ""."""
    return {"query": vector, "using": using} if using else {"query": vector}


def _where(*filters: Plain | None) -> dict[str, Any]:
    """What asks for points that meet all of these."""
    must = [one for one in filters if one is not None]
    return {"filter": {"must": must}} if must else {}


def _only(guard: Plain | None, points: Sequence[PointId]) -> dict[str, Any]:
    """What asks for these points and no others."""
    return _where(guard, {"has_id": [*points]}) | {"limit": len(points)}


def _stored(vector: Any, using: str, term: int) -> float:
    sparse = vector.get(using) if isinstance(vector, dict) else None
    if not isinstance(sparse, models.SparseVector):
        return 0.0
    return dict(zip(sparse.indices, sparse.values, strict=True)).get(term, 0.0)
