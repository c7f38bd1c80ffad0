"""The questions of a search to one collection, asked of a server and of a shard in the same way.

`guard` is a filter on everything that is read: no other point is found, or moves a score. Imports
no client: the engine host asks them too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_server_qdrant.core.datatypes import Payload, PointId
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.payload import judge, parts_in

Plain = Mapping[str, Any]
# Vector name, query vector (a sparse one is {"indices", "values"}), filter, and whether its exact
# scores are wanted; a leg without them is one over tags.
Leg = tuple[str, Any, Plain | None, bool]

OVER = 10  # candidates more than are wanted: ties of RRF come back in random order
# The scores of quantised vectors are approximate, unless they are computed again. Where a filter
# leaves few of many points, the graph alone finds too few of them (docs/server.md).
_RESCORED = {"quantization": {"rescore": True, "oversampling": 2.0}, "acorn": {"enable": True}}
# Few points need no index.
_EXACT = {"exact": True, "quantization": {"ignore": True}}
_FIRST = {"with_payload": ["doc.version", "doc.chunks"]}


class Questions:
    """Asks an engine that answers batches of REST-shaped queries.

    `at_once`: candidates have payloads, since a trip for those of the best would take longer.
    """

    at_once = True

    async def batch(self, name: str, requests: Sequence[Plain]) -> list[list[Any]]:
        """The points that answer each of the requests, best first."""
        raise NotImplementedError

    async def weighed(self, name: str, using: str) -> bool:
        """Whether the engine applies idf to a sparse vector."""
        raise NotImplementedError

    def damage(self, name: str, guard: Plain | None) -> str | None:  # noqa: ARG002
        """A sentence about points that the collection has lost."""
        return None

    async def answer(self, question: str, guard: Plain | None, *asked: Any) -> Any:
        """The answer of one collection: its name comes first in what is asked."""
        known = {"candidates": self._candidates, "idfs": self._idfs, "payloads": self._payloads}
        if question not in known:
            raise RequestError(f"The engine knows no question {question!r}.")
        ask: Any = known[question]
        return await ask(guard, *asked)

    async def _candidates(
        self,
        guard: Plain | None,
        name: str,
        legs: Sequence[Leg],
        k: int,
        limit: int,
        fields: Sequence[str] = (),
    ) -> tuple[Any, ...]:
        """The best points by RRF over the legs, and their exact scores on each scored leg.

        `(ids, rrf, scores per leg, payloads or None, damage)`, best first; payloads with these
        `fields`, or all: they show who carries a tag. A score is None where the point lacks the
        vector, or shares no term with the query.
        """
        if not legs:
            return [], [], [], None, None
        asked = [
            (_near(using, vector), _where(guard, where), await self._weights(name, using, guard))
            for using, vector, where, _ in legs
        ]
        exact = [
            near | {"params": _EXACT | idf, "with_payload": False}
            for (near, _, idf), (*_, scored) in zip(asked, legs, strict=True)
            if scored
        ]
        shown = self.at_once or len(exact) < len(legs)
        fusion = {
            "prefetch": [
                near | where | {"limit": limit, "params": _RESCORED | idf}
                for near, where, idf in asked
            ],
            "query": {"rrf": {"k": k}},
            "limit": limit + OVER,
            "with_payload": shown and (list(fields) or True),
        }
        (found,) = await self.batch(name, [fusion])
        # The embedded engine makes a UUID each time that it is asked for an id.
        rows = [(-point.score, str(key := point.id), key, point.payload) for point in found]
        best = sorted(rows, key=lambda row: row[:2])[:limit]
        ids = [key if isinstance(key, int) else text for _, text, key, _ in best]
        payloads = [payload or {} for *_, payload in best] if shown else None
        known = dict(zip(ids, payloads, strict=True)) if payloads else {}
        scores = await self._scores(guard, name, exact, [key for _, _, key, _ in best], known)
        rrf = [-score for score, *_ in best]
        return ids, rrf, scores, payloads, self.damage(name, guard)

    async def _scores(
        self,
        guard: Plain | None,
        name: str,
        exact: Sequence[dict[str, Any]],
        keys: Sequence[Any],
        payloads: Mapping[PointId, Payload],
    ) -> list[list[float | None]]:
        """The exact scores of the candidates on each leg; further parts are marked meanwhile."""
        if not keys:
            return [[] for _ in exact]
        only = _only(guard, keys)
        found = await self._marked(guard, name, payloads, [leg | only for leg in exact])
        legs = [{point.id: point.score for point in leg} for leg in found]
        return [[leg.get(key) for key in keys] for leg in legs]

    async def _marked(
        self,
        guard: Plain | None,
        name: str,
        payloads: Mapping[PointId, Payload],
        requests: Sequence[Plain] = (),
    ) -> list[list[Any]]:
        """The answers to the requests; in the same trip further parts of texts are marked.

        As current or replaced, by the version of the first part of each.
        """
        parts = parts_in(name, payloads)
        if firsts := sorted({first for _, first in parts}):
            requests = [*requests, _only(guard, firsts) | _FIRST]
        found = await self.batch(name, requests) if requests else []
        read = found.pop() if firsts else []
        judge(parts, {str(point.id): point.payload for point in read})
        return found

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
        keyed = ((point.id, point.payload or {}) for point in points)
        payloads = {k if isinstance(k, int) else str(k): payload for k, payload in keyed}
        if not self.at_once:
            await self._marked(guard, name, payloads)
        return payloads

    async def _weights(self, name: str, using: str, guard: Plain | None) -> dict[str, Any]:
        """The idf of a sparse vector is of the guarded points: others must not move a score."""
        if guard is None or not await self.weighed(name, using):
            return {}
        return {"idf": {"corpus": guard}}


def _near(using: str, vector: Any) -> dict[str, Any]:
    """What asks for the points nearest to a vector; an unnamed vector is ""."""
    return {"query": vector, "using": using} if using else {"query": vector}


def _where(*filters: Plain | None) -> dict[str, Any]:
    """What asks for points that meet all of these."""
    must = [one for one in filters if one is not None]
    return {"filter": {"must": must}} if must else {}


def _only(guard: Plain | None, points: Sequence[Any]) -> dict[str, Any]:
    """What asks for these points and no others."""
    return _where(guard, {"has_id": [*points]}) | {"limit": len(points)}


def _stored(vector: Any, using: str, term: int) -> float:
    """The value of a term in a point's sparse vector."""
    sparse: Any = vector.get(using) if isinstance(vector, dict) else None
    if not hasattr(sparse, "indices"):
        return 0.0
    return float(dict(zip(sparse.indices, sparse.values, strict=True)).get(term, 0.0))
