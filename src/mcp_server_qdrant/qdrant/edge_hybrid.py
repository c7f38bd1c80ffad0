"""What a search asks of the engine, of many collections in one call; plain data in and out.

Each function answers one entry per collection, in their order: `(True, answer)`, or
`(False, error)` as `hosting.wire.error_out` writes it, so that one collection's failure is its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.errors import QdrantMcpError
from mcp_server_qdrant.hosting.wire import error_out
from mcp_server_qdrant.qdrant import edge_types as types
from mcp_server_qdrant.qdrant.edge_check import check_ids, check_query
from mcp_server_qdrant.qdrant.edge_shards import Shard, Shards, guarded

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
        self, asked: Sequence[tuple[str, Sequence[Leg]]], k: int, limit: int, with_payload: Any
    ) -> list[Answer]:
        """The best points by RRF over the legs, each with its exact score on every scored leg.

        An answer is `(ids, rrf, scores per leg, payloads or None)`, lists of equal length, best
        first; a score is None where the point lacks the vector. A leg that is not scored is one
        over tags: who carries them is told by the payload, which comes then in any case.
        """
        filters: dict[int, Any] = {}
        selector = types.to_selector(with_payload or True)

        def one(shard: Shard, engine: edge.EdgeShard, legs: Sequence[Leg]) -> Any:
            requests = [
                (self._scoring(vector, using, shard), _filter(where, filters), weight, scored)
                for using, vector, where, weight, scored in legs
            ]
            ids, rrf, scores = fused(engine, requests, k, limit)
            shown = with_payload or not all(scored for *_, scored in legs)
            payloads = _payloads(engine, ids, selector) if shown else None
            return ids, rrf, scores, payloads

        return [self._each(name, one, legs) for name, legs in asked]

    def idfs(self, asked: Sequence[tuple[str, str, Sequence[int]]]) -> list[Answer]:
        """The engine's own idf of terms of a sparse vector, by term; absent terms are left out.

        A query of one term with weight 1 scores idf(t) * stored value.
        """

        def one(shard: Shard, engine: edge.EdgeShard, using: str, terms: Sequence[int]) -> Any:
            check_query(
                {"indices": list(terms), "values": [1.0] * len(terms)}, using, shard.sidecar
            )
            known = shard.idf
            if len(known) > IDFS:
                known.clear()
            for term in terms:
                if (using, term) not in known:
                    known[using, term] = _idf(engine, using, term)
            return {term: idf for term in terms if (idf := known[using, term]) > 0}

        return [self._each(name, one, *arguments) for name, *arguments in asked]

    def payloads(self, asked: Sequence[tuple[str, Sequence[Any]]]) -> list[Answer]:
        """The payloads of those points that exist, by id."""

        def one(_: Shard, engine: edge.EdgeShard, ids: Sequence[Any]) -> Any:
            check_ids(ids)
            records = engine.retrieve(list(ids), _ALL, _NO_VECTOR)
            return {types.from_id(record.id): record.payload for record in records}

        return [self._each(name, one, ids) for name, ids in asked]

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


def fused(
    engine: edge.EdgeShard, legs: Sequence[tuple[Any, Any, float, bool]], k: int, limit: int
) -> tuple[list[Any], list[float], list[list[float | None]]]:
    """The best points by weighted RRF, 1 / ((rank + 1) / w + k - 1): ids, RRF, scores per leg.

    The legs are asked one by one, which takes less than the engine's own fusion, and their
    scores are exact (codes are rescored): only points that one leg did not find are scored again.
    Ties are cut by id.
    """
    found: list[Scores] = []
    ids: dict[int, Any] = {}
    rrf: dict[int, float] = {}
    for query, where, weight, _ in legs:
        scores: Scores = {}
        for rank, point in enumerate(_ask(engine, query, where, limit)):
            point_id = point.id
            key = point_id if type(point_id) is int else ~point_id.int
            ids[key], scores[key] = point_id, point.score
            rrf[key] = rrf.get(key, 0.0) + 1.0 / ((rank + 1) / weight + k - 1)
        found.append(scores)
    floor = sorted(rrf.values())[-limit] if len(rrf) > limit else 0.0
    best = sorted((-rrf[key], str(ids[key]), key) for key in rrf if rrf[key] >= floor)[:limit]
    asked = [(leg[0], scores) for leg, scores in zip(legs, found, strict=True) if leg[3]]
    for query, scores in asked:
        if len(scores) < limit:
            continue  # whatever else there is has no score on this leg
        if missing := [ids[key] for *_, key in best if key not in scores]:
            only = edge.Filter(must=[edge.HasIdCondition(set(missing))])
            exact = _ask(engine, query, only, len(missing), types.EXACT)
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


def _filter(plain: Mapping[str, Any] | None, made: dict[int, Any]) -> Any:
    """The engine's filter, made once for all collections that share it."""
    if plain is None:
        return None
    if id(plain) not in made:
        made[id(plain)] = types.to_filter(plain)
    return made[id(plain)]


def _idf(engine: edge.EdgeShard, using: str, term: int) -> float:
    """Score / stored value of the term's best point; 0 where no point has it."""
    query = edge.Query.Nearest(edge.SparseVector([term], [1.0]), using=using)
    points = engine.query(
        edge.QueryRequest(1, query=query, with_payload=False, with_vector=[using])
    )
    if not points:
        return 0.0
    vectors: Any = points[0].vector
    stored = vectors[using]
    value = stored.values[stored.indices.index(term)]
    return float(points[0].score / value) if value > 0 else 0.0


def _payloads(engine: edge.EdgeShard, ids: Sequence[Any], selector: Any) -> list[Any]:
    records = engine.retrieve(list(ids), selector, _NO_VECTOR)
    found = {types.from_id(record.id): record.payload for record in records}
    return [found.get(point_id) for point_id in ids]
