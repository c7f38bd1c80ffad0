"""The questions of a search, to many collections in one call; plain data in and out.

Each function answers one entry per collection, in their order: `(True, answer)`, or
`(False, error)` as `hosting.wire.error_out` writes it, so that one collection fails alone.

A `guard` is a filter on everything that a call reads: no other point is found, or moves a score.
`paths` are the fields to read of heavy payloads; None: all.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import uuid_text
from mcp_server_qdrant.hosting.wire import error_out, pack
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_ids, check_query, plain_id
from mcp_server_qdrant.qdrant.edge.payload import lightened
from mcp_server_qdrant.qdrant.edge.shards import Shard, Shards, guarded
from mcp_server_qdrant.qdrant.payload import judge, parts_in

Answer = tuple[bool, Any]
# Vector name, query vector, filter, weight in RRF, and whether scores are wanted.
Leg = tuple[str, Any, Any, float, bool]
Scores = dict[int, float]
Guard = Mapping[str, Any] | None

Answers = Generator[None, None, list[Answer]]  # pauses between two collections

FIRSTS = 50_000  # first parts of texts, kept for one shard and guard
HEAVY_AT_ONCE = 16  # payloads, of which one can have megabytes
TIES = 10  # points beyond the limit, so that its last place is the same whatever the order
_RESCORED, _EXACT = types.search_params(), types.search_params(exact=True)
_DOC = ["doc.version", "doc.chunks"]


class Hybrid:
    """The searches of one client. Whatever the collections of a call share is made once."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._vector: Any = None
        self._dense: dict[tuple[str, int], Any] = {}

    def candidates(
        self,
        guard: Guard,
        questions: Sequence[tuple[str, Sequence[Leg]]],
        k: int,
        limit: int,
        paths: Sequence[str] | None = None,
    ) -> Answers:
        """The best points by RRF over the legs, each with its exact score on every scored leg.

        An answer is `(ids, rrf, scores per leg, payloads or None, damage)`: lists of equal length,
        best first, and a sentence about lost points. A score is None where the point lacks the
        vector. A leg without scores is one over tags: payloads show who carries them, and are read
        for it.
        """
        filters = _Filters(guard)

        def answer(shard: Shard, engine: edge.EdgeShard, legs: Sequence[Leg]) -> Any:
            requests = []
            for using, vector, where, weight, scored in legs:
                nearest = self._nearest(vector, using, shard)
                params = filters.params(shard, using)
                requests.append(EngineLeg(nearest, filters.of(where), weight, scored, *params))
            ids, rrf, scores = fused(engine, requests, k, limit)
            payloads = None
            if not all(scored for *_, scored in legs):
                found = _payloads(engine, ids, paths)
                _judge(shard, engine, found, guard)
                payloads = [found.get(point) for point in ids]
            return ids, rrf, scores, payloads, shard.damage(numbers=guard is None)

        return self._each(answer, questions)

    def idfs(self, guard: Guard, questions: Sequence[tuple[str, str, Sequence[int]]]) -> Answers:
        """The engine's own idf of terms of a sparse vector; absent ones are left out.

        A query of one term with weight 1 scores idf(t) * stored value.
        """
        filters = _Filters(guard)

        def answer(shard: Shard, engine: edge.EdgeShard, using: str, terms: Sequence[int]) -> Any:
            if terms:
                vector = {"indices": list(terms), "values": [1.0] * len(terms)}
                check_query(vector, using, shard.sidecar)
            params, _ = filters.params(shard, using)
            where = filters.of(None)
            found = {term: _idf(engine, using, term, where, params) for term in terms}
            return {term: idf for term, idf in found.items() if idf > 0}

        return self._each(answer, questions)

    def payloads(
        self,
        guard: Guard,
        questions: Sequence[tuple[str, Sequence[Any]]],
        paths: Sequence[str] | None = None,
    ) -> Answers:
        """The payloads of those points that exist by id; of heavy ones the values at `paths`."""

        def answer(shard: Shard, engine: edge.EdgeShard, ids: Sequence[Any]) -> Any:
            check_ids(ids)
            found = _payloads(engine, _allowed(engine, ids, guard), paths)
            _judge(shard, engine, found, guard)
            return found

        return self._each(answer, questions)

    def _each(self, answer: Callable[..., Any], questions: Sequence[tuple[Any, ...]]) -> Answers:
        """The answers of all collections, one after the other."""
        answers: list[Answer] = []
        for name, *arguments in questions:
            try:
                with guarded(name):
                    shard = self._shards.get(name)
                    engine = self._shards.engine(shard)
                    answers.append((True, answer(shard, engine, *arguments)))
            except QdrantMcpError as error:
                answers.append((False, error_out(error)))
            yield
        return answers

    def _nearest(self, vector: Any, using: str, shard: Shard) -> Any:
        """The engine's query; a dense vector is checked and converted once per name and size."""
        if isinstance(vector, tuple):
            sparse = dict(zip(("indices", "values"), vector, strict=True))
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


class EngineLeg(NamedTuple):
    """A leg in the engine's types; `exact`: the parameters of a second look at few points."""

    query: Any
    where: Any
    weight: float
    scored: bool
    params: Any
    exact: Any


class _Filters:
    """The filters of one call, made once for all its collections."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._made: dict[int, Any] = {}  # by the identity of the plain filter
        self._weighing: tuple[Any, Any] | None = None

    def of(self, plain: Mapping[str, Any] | None) -> Any:
        """The filter and the guard, for the engine."""
        if id(plain) not in self._made:
            both = [where for where in (self._guard, plain) if where is not None]
            self._made[id(plain)] = types.to_filter({"must": both}) if both else None
        return self._made[id(plain)]

    def params(self, shard: Shard, using: str) -> tuple[Any, Any]:
        """Parameters of a search, and of an exact one; idf is that of the guarded points."""
        if using in shard.sidecar["vectors"]:
            return _RESCORED, _EXACT
        sparse = shard.sidecar["sparse_vectors"].get(using, {"modifier": "idf"})
        if self._guard is None or sparse.get("modifier") != "idf":
            return None, _EXACT
        if self._weighing is None:
            corpus = self.of(None)
            self._weighing = (
                types.search_params(corpus=corpus),
                types.search_params(exact=True, corpus=corpus),
            )
        return self._weighing


def fused(
    engine: edge.EdgeShard, legs: Sequence[EngineLeg], k: int, limit: int
) -> tuple[list[Any], list[float], list[list[float | None]]]:
    """The best points by the engine's weighted RRF: ids, RRF, exact scores per scored leg.

    Ties are cut by id, of as many as `TIES` points.
    """
    if not legs:
        return [], [], []
    rrf: Any = edge.Fusion.Rrf(k, [leg.weight for leg in legs])  # its stub lacks the base class
    found = engine.query(
        edge.QueryRequest(
            limit + TIES,
            query=rrf,
            prefetches=[
                edge.Prefetch(limit, query=leg.query, filter=leg.where, params=leg.params)
                for leg in legs
            ],
            with_payload=False,
            with_vector=False,
        )
    )
    best = sorted((-point.score, str(point.id), point.id) for point in found)[:limit]
    ids = [point_id for *_, point_id in best]
    only = edge.Filter(must=[edge.HasIdCondition(set(ids))])
    scores = [_scores(engine, leg, only, len(ids)) for leg in legs if leg.scored]
    return (
        [point_id if type(point_id) is int else text for _, text, point_id in best],
        [-score for score, *_ in best],
        [[leg.get(key) for key in map(_key, ids)] for leg in scores],
    )


def _scores(engine: edge.EdgeShard, leg: EngineLeg, only: edge.Filter, limit: int) -> Scores:
    """The exact scores of a few points."""
    found = _ask(engine, leg.query, only, limit, leg.exact)
    return {_key(point.id): point.score for point in found}


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
    """A point id that compares fast: hashing a UUID takes longer than finding it."""
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


def _allowed(engine: edge.EdgeShard, ids: Sequence[Any], guard: Guard) -> Sequence[Any]:
    """The ids of those points that the guard lets through."""
    if guard is None or not ids:
        return ids
    where = types.to_filter({"must": [guard, {"has_id": list(ids)}]})
    request = edge.ScrollRequest(
        limit=len(ids), filter=where, with_payload=False, with_vector=False
    )
    return [plain_id(record.id) for record in engine.scroll(request)[0]]


def _payloads(
    engine: edge.EdgeShard, ids: Sequence[Any], paths: Sequence[str] | None
) -> dict[Any, Any]:
    """The payloads of those that exist, by id; of heavy ones the values at the paths."""
    found: dict[Any, Any] = {}
    for start in range(0, len(ids), HEAVY_AT_ONCE):
        some = ids[start : start + HEAVY_AT_ONCE]
        records = engine.retrieve(list(some), with_payload=True, with_vector=False)
        # All exist, as a rule: asking each record for its id takes as long as reading it.
        known = some if len(records) == len(some) else [plain_id(record.id) for record in records]
        found.update(zip(known, lightened([r.payload for r in records], paths), strict=True))
    return found


def _judge(shard: Shard, engine: edge.EdgeShard, payloads: Mapping[Any, Any], guard: Guard) -> None:
    """Mark each further part of a text as current or replaced, by the version of its first part.

    Reading the first part here saves the search a trip; it is remembered until the next write.
    """
    parts = parts_in(shard.name, payloads)
    if not parts:
        return
    known = shard.firsts.setdefault(pack(guard), {})
    if missing := {first for _, first in parts} - known.keys():
        ids = _allowed(engine, [uuid_text(first) for first in missing], guard)
        read = engine.retrieve(list(ids), with_payload=_DOC, with_vector=False)
        found = {plain_id(record.id): record.payload for record in read}
        known.update((first, found.get(uuid_text(first))) for first in missing)
    judge(parts, {uuid_text(first): known[first] for _, first in parts})
    if len(known) > FIRSTS:
        shard.firsts = {}
