"""What a search asks of the engine, of many collections in one call; plain data in and out.

Each function answers one entry per collection, in their order: `(True, answer)`, or
`(False, error)` as `hosting.wire.error_out` writes it, so that one collection's failure is its own.

A `guard` is a filter on everything that a call reads: no other point is found, or moves a score.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import qdrant_edge as edge

from mcp_server_qdrant.errors import QdrantMcpError
from mcp_server_qdrant.hosting.wire import error_out
from mcp_server_qdrant.qdrant import edge_types as types
from mcp_server_qdrant.qdrant.edge_check import check_ids, check_query
from mcp_server_qdrant.qdrant.edge_shards import Shard, Shards, guarded
from mcp_server_qdrant.qdrant.payload import FIRST, head_of

Answer = tuple[bool, Any]
# Vector name, query vector, filter, weight in RRF, and whether its scores are asked for.
Leg = tuple[str, Any, Any, float, bool]
Scores = dict[int, float]

IDFS = 50_000  # remembered of one shard
_ALL, _NO_VECTOR = True, False


class Hybrid:
    """The searches of one client. What all collections of a call share is made once."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._vector: Any = None
        self._dense: dict[tuple[str, int], Any] = {}

    def candidates(
        self,
        asked: Sequence[tuple[str, Sequence[Leg]]],
        k: int,
        limit: int,
        with_payload: Any,
        guard: Mapping[str, Any] | None = None,
    ) -> list[Answer]:
        """The best points by RRF over the legs, each with its exact score on every scored leg.

        An answer is `(ids, rrf, scores per leg, payloads or None, damage)`: lists of equal length,
        best first, and in a sentence what of the collection is lost. A score is None where the
        point lacks the vector. A leg that is not scored is one over tags: who carries them is told
        by the payload, which comes then in any case.
        """
        filters = _Filters(guard)
        selector = types.to_selector(with_payload or True)

        def one(shard: Shard, engine: edge.EdgeShard, legs: Sequence[Leg]) -> Any:
            requests = [
                Asked(
                    self._scoring(vector, using, shard),
                    filters.of(where),
                    weight,
                    scored,
                    *filters.params(using, shard),
                )
                for using, vector, where, weight, scored in legs
            ]
            ids, rrf, scores = fused(engine, requests, k, limit)
            shown = with_payload or not all(scored for *_, scored in legs)
            payloads = _payloads(engine, ids, selector) if shown else None
            if payloads:
                _tell_firsts(engine, dict(zip(ids, payloads, strict=True)), filters.guard)
            return ids, rrf, scores, payloads, shard.damage(numbers=guard is None)

        return [self._each(name, one, legs) for name, legs in asked]

    def idfs(
        self,
        asked: Sequence[tuple[str, str, Sequence[int]]],
        guard: Mapping[str, Any] | None = None,
    ) -> list[Answer]:
        """The engine's own idf of terms of a sparse vector, by term; absent terms are left out.

        A query of one term with weight 1 scores idf(t) * stored value. Only what counts all points
        of a shard is remembered with it.
        """
        filters = _Filters(guard)

        def one(shard: Shard, engine: edge.EdgeShard, using: str, terms: Sequence[int]) -> Any:
            check_query(
                {"indices": list(terms), "values": [1.0] * len(terms)}, using, shard.sidecar
            )
            known = shard.idf if guard is None else {}
            where, params = filters.of(None), filters.params(using, shard)[0]
            if len(known) > IDFS:
                known.clear()
            for term in terms:
                if (using, term) not in known:
                    known[using, term] = _idf(engine, using, term, where, params)
            return {term: idf for term in terms if (idf := known[using, term]) > 0}

        return [self._each(name, one, *arguments) for name, *arguments in asked]

    def payloads(
        self,
        asked: Sequence[tuple[str, Sequence[Any], Sequence[str] | None]],
        guard: Mapping[str, Any] | None = None,
    ) -> list[Answer]:
        """The payloads of those points that exist by id, whole or these fields of them."""
        guarding = types.to_filter(guard)

        def one(
            _: Shard, engine: edge.EdgeShard, ids: Sequence[Any], fields: Sequence[str] | None
        ) -> Any:
            check_ids(ids)
            records = _records(engine, ids, guarding, list(fields) if fields else _ALL)
            found = {types.from_id(record.id): record.payload for record in records}
            _tell_firsts(engine, found, guarding)
            return found

        return [self._each(name, one, *arguments) for name, *arguments in asked]

    def _each(self, name: str, function: Callable[..., Any], *arguments: Any) -> Answer:
        try:
            shard = self._shards.get(name)
            engine = self._shards.engine(shard)
            with guarded(name):
                return True, function(shard, engine, *arguments)
        except QdrantMcpError as error:
            return False, error_out(error)

    def _scoring(self, vector: Any, using: str, shard: Shard) -> Any:
        """The engine's query; a dense vector is checked and converted once per name and size."""
        if isinstance(vector, tuple):
            indices, values = vector
            sparse = {"indices": indices, "values": values}
            check_query(sparse, using, shard.sidecar)
            return edge.Query.Nearest(types.to_vector(sparse), using=using)
        if vector is not self._vector:
            self._vector, self._dense = vector, {}
        params = shard.sidecar["vectors"].get(using)
        key = using, params["size"] if params else 0
        if key not in self._dense:
            check_query(vector, using, shard.sidecar)
            self._dense[key] = edge.Query.Nearest(vector, using=using or None)
        return self._dense[key]


class Asked(NamedTuple):
    """One leg as the engine is asked: `exact` are the parameters of a second look at few points."""

    query: Any
    where: Any
    weight: float
    scored: bool
    params: Any
    exact: Any


class _Filters:
    """The engine's filters of one call, made once for all collections that share them."""

    def __init__(self, guard: Mapping[str, Any] | None) -> None:
        self.guard = types.to_filter(guard)
        self._made: dict[int, Any] = {}
        if self.guard is not None:
            corpus = {"idf": {"corpus": guard}}
            self._weighing = types.to_params(corpus), types.to_params({"exact": True} | corpus)

    def of(self, plain: Mapping[str, Any] | None) -> Any:
        """The filter, and the guard."""
        if plain is None:
            return self.guard
        if id(plain) not in self._made:
            made: Any = types.to_filter(plain)
            if self.guard is not None:
                made = edge.Filter(must=[self.guard, made])
            self._made[id(plain)] = made
        return self._made[id(plain)]

    def params(self, using: str, shard: Shard) -> tuple[Any, Any]:
        """Parameters of a search, and of an exact one; idf is that of the guarded points."""
        sparse = shard.sidecar["sparse_vectors"].get(using)
        if self.guard is None or not sparse or sparse.get("modifier") != "idf":
            return None, types.EXACT
        return self._weighing


def fused(
    engine: edge.EdgeShard, legs: Sequence[Asked], k: int, limit: int
) -> tuple[list[Any], list[float], list[list[float | None]]]:
    """The best points by weighted RRF, 1 / ((rank + 1) / w + k - 1): ids, RRF, scores per leg.

    The legs are asked one by one, which takes less than the engine's own fusion, and their
    scores are exact (codes are rescored): only points that one leg did not find are scored again.
    Ties are cut by id.
    """
    found: list[Scores] = []
    ids: dict[int, Any] = {}
    rrf: dict[int, float] = {}
    for leg in legs:
        scores: Scores = {}
        for rank, point in enumerate(_ask(engine, leg.query, leg.where, limit, leg.params)):
            point_id = point.id
            key = point_id if type(point_id) is int else ~point_id.int
            ids[key], scores[key] = point_id, point.score
            rrf[key] = rrf.get(key, 0.0) + 1.0 / ((rank + 1) / leg.weight + k - 1)
        found.append(scores)
    floor = sorted(rrf.values())[-limit] if len(rrf) > limit else 0.0
    best = sorted((-rrf[key], str(ids[key]), key) for key in rrf if rrf[key] >= floor)[:limit]
    asked = [(leg, scores) for leg, scores in zip(legs, found, strict=True) if leg.scored]
    for leg, scores in asked:
        if len(scores) < limit:
            continue  # whatever else there is has no score on this leg
        if missing := [ids[key] for *_, key in best if key not in scores]:
            only = edge.Filter(must=[edge.HasIdCondition(set(missing))])
            exact = _ask(engine, leg.query, only, len(missing), leg.exact)
            scores.update((_key(point.id), point.score) for point in exact)
    return (
        [key if key >= 0 else text for _, text, key in best],
        [-score for score, *_ in best],
        [[scores.get(key) for *_, key in best] for _, scores in asked],
    )


def _ask(engine: edge.EdgeShard, query: Any, where: Any, limit: int, params: Any = None) -> Any:
    return engine.query(
        edge.QueryRequest(
            limit,
            query=query,
            filter=where,
            params=params,
            with_payload=False,
            with_vector=False,
        )
    )


def _key(point_id: Any) -> int:
    """A point id that is quick to compare: hashing a UUID takes longer than finding it."""
    return point_id if type(point_id) is int else ~point_id.int


def _idf(engine: edge.EdgeShard, using: str, term: int, where: Any, params: Any) -> float:
    """Score / stored value of the term's best point; 0 where no point has it."""
    query = edge.Query.Nearest(edge.SparseVector([term], [1.0]), using=using)
    points = engine.query(
        edge.QueryRequest(
            1, query=query, filter=where, params=params, with_payload=False, with_vector=[using]
        )
    )
    if not points:
        return 0.0
    vectors: Any = points[0].vector
    stored = vectors[using]
    value = stored.values[stored.indices.index(term)]
    return float(points[0].score / value) if value > 0 else 0.0


def _records(engine: edge.EdgeShard, ids: Sequence[Any], guard: Any, selector: Any) -> list[Any]:
    """The named points with their payloads."""
    if guard is None or not ids:
        return engine.retrieve(list(ids), selector, _NO_VECTOR)
    named = edge.Filter(must=[guard, edge.HasIdCondition(set(ids))])
    request = edge.ScrollRequest(
        limit=len(ids), filter=named, with_payload=selector, with_vector=_NO_VECTOR
    )
    return engine.scroll(request)[0]


def _tell_firsts(engine: edge.EdgeShard, payloads: Mapping[Any, Any], guard: Any) -> None:
    """Put beside the further parts of texts what their first parts say: which version is shown.

    That saves a search the trip to ask for it.
    """
    docs: dict[Any, list[dict[str, Any]]] = {}
    for point, payload in payloads.items():
        doc = (payload or {}).get("doc") or {}
        if (first := head_of(point, doc)) is not None:
            docs.setdefault(first, []).append(doc)
    if docs:
        records = _records(engine, list(docs), guard, ["doc"])
        found = {types.from_id(record.id): record.payload for record in records}
        for first, those in docs.items():
            for doc in those:
                doc[FIRST] = (found.get(first) or {}).get("doc")


def _payloads(engine: edge.EdgeShard, ids: Sequence[Any], selector: Any) -> list[Any]:
    records = engine.retrieve(list(ids), selector, _NO_VECTOR)
    found = {types.from_id(record.id): record.payload for record in records}
    return [found.get(point_id) for point_id in ids]
