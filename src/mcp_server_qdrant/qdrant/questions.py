"""Candidates and IDFs of one collection of a server or of local mode, by batched queries."""

from collections.abc import Sequence
from typing import Any

from qdrant_client import models
from typing_extensions import override

from mcp_server_qdrant.qdrant.engine import Ask, Candidates, Corpus, Found, Plain
from mcp_server_qdrant.qdrant.errors import TranslatedClient
from mcp_server_qdrant.qdrant.payload import further_parts, mark_current

OVER = 10  # extra candidates, because ties of RRF come in random order
# Scores of quantised vectors are approximate unless rescored. With a filter that leaves few of many
# points, the graph alone finds too few of them (docs/server.md).
_RESCORED = {"quantization": {"rescore": True, "oversampling": 2.0}, "acorn": {"enable": True}}
# Few points need no index.
_EXACT = {"exact": True, "quantization": {"ignore": True}}
_FIRST = {"with_payload": ["doc.version", "doc.chunks"]}


class SearchClient(TranslatedClient):
    """qdrant-client's client with the search questions that the embedded engine has too.

    `lean`: queries are sent as plain JSON, without the slow models of qdrant-client.
    """

    lean = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._idf_vectors: dict[str, frozenset[str]] = {}  # collection -> sparse vectors with IDF

    async def batch(self, name: str, requests: Sequence[Plain]) -> list[list[Any]]:
        """The resulting points of each request, best first."""
        asked: Any = requests
        if not self.lean:
            asked = [models.QueryRequest.model_validate(request) for request in requests]
        return [answer.points for answer in await self.query_batch_points(name, asked)]

    async def applies_idf(self, name: str, using: str) -> bool:
        """Whether the engine applies IDF to a sparse vector."""
        if name not in self._idf_vectors:
            await self.get_collection(name)
        return using in self._idf_vectors[name]

    @override
    async def get_collection(self, collection_name: str, **options: Any) -> models.CollectionInfo:
        info: models.CollectionInfo = await super().get_collection(collection_name, **options)
        vectors = info.config.params.sparse_vectors or {}
        weighed = (n for n, v in vectors.items() if v.modifier == models.Modifier.IDF)
        self._idf_vectors[collection_name] = frozenset(weighed)
        return info

    async def candidates(self, ask: Ask) -> Candidates:
        """The candidates, by two batches of queries: one for RRF, one for the exact scores."""
        (name,) = ask.collections
        asked = [
            (
                _near(leg.vector, leg.query),
                _where(ask.guard, leg.where),
                await self._idf_params(name, leg.vector, ask.guard),
            )
            for leg in ask.legs
        ]
        fusion = {
            "prefetch": [
                near | where | {"limit": ask.limit, "params": _RESCORED | idf}
                for near, where, idf in asked
            ],
            "query": {"rrf": {"k": ask.k}},
            "limit": ask.limit + OVER,
            "with_payload": list(ask.fields) or True,
        }
        exact = [
            near | {"params": _EXACT | idf, "with_payload": False}
            for (near, _, idf), leg in zip(asked, ask.legs, strict=True)
            if leg.scored
        ]
        (points,) = await self.batch(name, [fusion])
        rows = [(-point.score, str(key := point.id), key, point.payload or {}) for point in points]
        best = sorted(rows, key=lambda row: row[:2])[: ask.limit]
        found = [
            Found(name, key if isinstance(key, int) else text, -rrf, [], payload)
            for rrf, text, key, payload in best
        ]
        if best:
            await self._score(ask.guard, name, exact, [key for _, _, key, _ in best], found)
        return Candidates(found)

    async def _score(
        self,
        guard: Plain | None,
        name: str,
        exact: Sequence[dict[str, Any]],
        keys: Sequence[Any],
        found: Sequence[Found],
    ) -> None:
        """Add the exact scores on each leg; the same batch reads the first parts of texts."""
        only, parts = _only(guard, keys), further_parts(found)
        requests = [leg | only for leg in exact]
        if firsts := sorted({first for _, first in parts}):
            requests.append(_only(guard, firsts) | _FIRST)
        answers = await self.batch(name, requests) if requests else []
        read = answers.pop() if firsts else []
        mark_current(parts, {(name, str(point.id)): point.payload for point in read})
        legs = [{point.id: point.score for point in leg} for leg in answers]
        for one, key in zip(found, keys, strict=True):
            one.scores = [leg.get(key) for leg in legs]

    async def idfs(self, corpus: Corpus) -> dict[int, float]:
        """The engine's own IDF of the terms; absent ones are left out.

        A query of one term with weight 1 scores idf(t) * stored value, and the vector has that
        value. All queries go in one batch.
        """
        (name,), using = corpus.collections, corpus.vector
        shown = {
            "limit": 1,
            "with_vector": [using],
            "params": await self._idf_params(name, using, corpus.guard),
        }
        requests = [
            _near(using, {"indices": [term], "values": [1.0]}) | _where(corpus.guard) | shown
            for term in corpus.terms
        ]
        found: dict[int, float] = {}
        for term, points in zip(corpus.terms, await self.batch(name, requests), strict=True):
            if points and (value := stored_value(points[0].vector, using, term)) > 0:
                found[term] = points[0].score / value
        return found

    async def _idf_params(self, name: str, using: str, guard: Plain | None) -> dict[str, Any]:
        """Compute the IDF over the guarded points only: others must not influence a score."""
        if guard is None or not await self.applies_idf(name, using):
            return {}
        return {"idf": {"corpus": guard}}


def _near(using: str, vector: Any) -> dict[str, Any]:
    """The query for the points nearest to a vector; an unnamed vector is ""."""
    return {"query": vector, "using": using} if using else {"query": vector}


def _where(*filters: Plain | None) -> dict[str, Any]:
    """The filter part of a query: all of these conditions."""
    must = [one for one in filters if one is not None]
    return {"filter": {"must": must}} if must else {}


def _only(guard: Plain | None, points: Sequence[Any]) -> dict[str, Any]:
    """The query part that selects exactly these points."""
    return _where(guard, {"has_id": [*points]}) | {"limit": len(points)}


def stored_value(vector: Any, using: str, term: int) -> float:
    """The value of a term in a point's sparse vector."""
    sparse: Any = vector.get(using) if isinstance(vector, dict) else None
    if not hasattr(sparse, "indices"):
        return 0.0
    return float(dict(zip(sparse.indices, sparse.values, strict=True)).get(term, 0.0))
