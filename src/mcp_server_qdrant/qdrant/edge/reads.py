"""The reads of the engine, on plain data.

Each function takes the arguments as they came over the wire, and returns plain data. The questions
of a search go to many collections in one call, and answer one entry per collection, in their order:
`(True, answer)`, or `(False, error)` as `hosting.wire.error_out` writes it, so that one collection
fails alone. Their `guard` is a filter on everything that such a call reads: no other point is
found, or moves a score.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import uuid_text
from mcp_server_qdrant.hosting.wire import error_out
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_query, plain_id
from mcp_server_qdrant.qdrant.edge.schema import index_type
from mcp_server_qdrant.qdrant.edge.shards import Shard, Shards, guarded
from mcp_server_qdrant.qdrant.payload import judge, parts_in

Answer = tuple[bool, Any]
Row = tuple[Any, ...]
Shown = tuple[Any, Any]  # see `plain.shown`
# Vector name, query vector, filter, and whether scores are wanted.
Leg = tuple[str, Any, Any, bool]
Guard = Mapping[str, Any] | None

TIES = 10  # points beyond the limit, so that its last place is the same whatever the order
_RESCORED, _EXACT = types.search_params(), types.search_params(exact=True)
_DOC = ["doc.version", "doc.chunks"]


class Reads:
    """The reads of one host. Between two collections of a search others have their turn."""

    def __init__(self, shards: Shards, pause: Callable[[], Awaitable[None]]) -> None:
        self._shards = shards
        self._pause = pause

    def collections(self) -> list[str]:
        """All names."""
        return self._shards.names()

    def info(self, name: str) -> dict[str, Any]:
        """Sidecar, exact count, segments and payload indexes."""
        shard = self._shards.get(name)
        return {
            **shard.sidecar,
            **_measured(self._shards.engine(shard), shard.sidecar.get("indexes", {})),
            "points_count": self._shards.exact_count(shard),
            "damage": shard.damage(),
        }

    def retrieve(self, name: str, ids: list[Any], shown: Shown) -> list[Row]:
        """The points that exist, in the order of the ids."""
        return _rows(self._engine(name).retrieve(ids, *shown))

    def scroll(
        self, name: str, where: Any, limit: int, offset: Any, order: Any, shown: Shown
    ) -> tuple[list[Row], Any]:
        """One page and where the next begins; None where it is in the order of an indexed field."""
        payload, vectors = shown
        request = edge.ScrollRequest(
            limit=limit,
            offset=offset,
            filter=types.to_filter(where),
            order_by=None if order is None else types.to_order(order),
            with_payload=payload,
            with_vector=vectors,
        )
        records, following = self._engine(name).scroll(request)
        return _rows(records), None if order else plain_id(following)

    def count(self, name: str, where: Any) -> int:
        """The number of points that match; exact, for an estimate double counts after a crash."""
        if where is None:
            return self._shards.exact_count(self._shards.get(name))
        request = edge.CountRequest(exact=True, filter=types.to_filter(where))
        return self._engine(name).count(request)

    def facet(self, name: str, key: str, where: Any, limit: int) -> list[tuple[Any, int]]:
        """The most frequent values of a field, which needs an index for it."""
        request = edge.FacetRequest(key, limit=limit, exact=True, filter=types.to_filter(where))
        hits = self._engine(name).facet(request).hits
        return [(plain_id(hit.value), hit.count) for hit in hits]

    # The questions of a search

    async def candidates(
        self, guard: Guard, asked: Sequence[tuple[str, Sequence[Leg]]], k: int, limit: int
    ) -> list[Answer]:
        """The best points by RRF over the legs, each with its exact score on every scored leg.

        An answer is `(ids, rrf, scores per leg, payloads or None, damage)`: lists of equal length,
        best first, and a sentence about lost points. A score is None where the point lacks the
        vector. A leg without scores is one over tags: payloads show who carries them, and are read
        for it.
        """
        question = _Question(guard)

        def answer(shard: Shard, engine: edge.EdgeShard, legs: Sequence[Leg]) -> Any:
            ids, rrf, scores = fused(engine, [question.leg(shard, *leg) for leg in legs], k, limit)
            payloads = None
            if not all(scored for *_, scored in legs):
                found = _payloads(engine, ids)
                _judge(shard, engine, found, guard)
                payloads = [found.get(point) for point in ids]
            return ids, rrf, scores, payloads, shard.damage(numbers=guard is None)

        return await self._each(answer, asked)

    async def idfs(
        self, guard: Guard, asked: Sequence[tuple[str, str, Sequence[int]]]
    ) -> list[Answer]:
        """The engine's own idf of terms of a sparse vector; absent ones are left out.

        A query of one term with weight 1 scores idf(t) * stored value.
        """
        question = _Question(guard)

        def answer(shard: Shard, engine: edge.EdgeShard, using: str, terms: Sequence[int]) -> Any:
            vector = {"indices": list(terms), "values": [1.0] * len(terms)}
            check_query(vector, using, shard.sidecar)
            params, _ = question.params(shard, using)
            where = question.filter(None)
            found = {term: _idf(engine, using, term, where, params) for term in terms}
            return {term: idf for term, idf in found.items() if idf > 0}

        return await self._each(answer, asked)

    async def payloads(
        self, guard: Guard, asked: Sequence[tuple[str, Sequence[Any]]]
    ) -> list[Answer]:
        """The payloads of those points that exist, by id."""

        def answer(shard: Shard, engine: edge.EdgeShard, ids: Sequence[Any]) -> Any:
            found = _payloads(engine, _allowed(engine, ids, guard))
            _judge(shard, engine, found, guard)
            return found

        return await self._each(answer, asked)

    async def _each(
        self, answer: Callable[..., Any], asked: Sequence[tuple[Any, ...]]
    ) -> list[Answer]:
        """The answers of all collections, one after the other."""
        answers: list[Answer] = []
        for name, *arguments in asked:
            try:
                with guarded(name):
                    shard = self._shards.get(name)
                    engine = self._shards.engine(shard)
                    answers.append((True, answer(shard, engine, *arguments)))
            except QdrantMcpError as error:
                answers.append((False, error_out(error)))
            await self._pause()
        return answers

    def _engine(self, name: str) -> edge.EdgeShard:
        return self._shards.engine(self._shards.get(name))


class EngineLeg(NamedTuple):
    """A leg in the engine's types; `exact`: the parameters of a second look at few points."""

    query: Any
    where: Any
    scored: bool
    params: Any
    exact: Any


class _Question:
    """One call, in the engine's types: the filters that its collections share are made once."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._filters: dict[int, Any] = {}  # by the identity of the plain one

    def leg(
        self,
        shard: Shard,
        using: str,
        vector: Any,
        where: Any,
        scored: bool,  # noqa: FBT001
    ) -> EngineLeg:
        """One leg; a sparse vector is its indices and its values."""
        if isinstance(vector, tuple):
            vector = dict(zip(("indices", "values"), vector, strict=True))
        check_query(vector, using, shard.sidecar)
        query = edge.Query.Nearest(types.to_vector(vector), using=using or None)
        return EngineLeg(query, self.filter(where), scored, *self.params(shard, using))

    def filter(self, plain: Mapping[str, Any] | None) -> Any:
        """The filter and the guard."""
        if id(plain) not in self._filters:
            both = [where for where in (self._guard, plain) if where is not None]
            self._filters[id(plain)] = types.to_filter({"must": both}) if both else None
        return self._filters[id(plain)]

    def params(self, shard: Shard, using: str) -> tuple[Any, Any]:
        """Parameters of a search, and of an exact one; idf is that of the guarded points."""
        if using in shard.sidecar["vectors"]:
            return _RESCORED, _EXACT
        sparse = shard.sidecar["sparse_vectors"].get(using, {"modifier": "idf"})
        if self._guard is None or sparse.get("modifier") != "idf":
            return None, _EXACT
        corpus = self.filter(None)
        return types.search_params(corpus=corpus), types.search_params(exact=True, corpus=corpus)


def fused(
    engine: edge.EdgeShard, legs: Sequence[EngineLeg], k: int, limit: int
) -> tuple[list[Any], list[float], list[list[float | None]]]:
    """The best points by the engine's RRF: ids, RRF, exact scores per scored leg.

    Ties are cut by id, of as many as `TIES` points.
    """
    if not legs:
        return [], [], []
    rrf: Any = edge.Fusion.Rrf(k)  # its stub lacks the base class
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
        [[leg.get(point_id) for point_id in ids] for leg in scores],
    )


def _scores(
    engine: edge.EdgeShard, leg: EngineLeg, only: edge.Filter, limit: int
) -> dict[Any, float]:
    """The exact scores of a few points."""
    request = edge.QueryRequest(
        limit,
        query=leg.query,
        filter=only,
        params=leg.exact,
        with_payload=False,
        with_vector=False,
    )
    return {point.id: point.score for point in engine.query(request)}


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


def _payloads(engine: edge.EdgeShard, ids: Sequence[Any]) -> dict[Any, Any]:
    """The payloads of those that exist, by id."""
    records = engine.retrieve(list(ids), with_payload=True, with_vector=False)
    # All exist, as a rule: asking each record for its id takes as long as reading it.
    known = ids if len(records) == len(ids) else [plain_id(record.id) for record in records]
    return {point: record.payload for point, record in zip(known, records, strict=True)}


def _judge(shard: Shard, engine: edge.EdgeShard, payloads: Mapping[Any, Any], guard: Guard) -> None:
    """Mark each further part of a text as current or replaced, by the version of its first part.

    Reading the first part here saves the search a trip.
    """
    parts = parts_in(shard.name, payloads)
    if not parts:
        return
    firsts = {uuid_text(first) for _, first in parts}
    ids = _allowed(engine, list(firsts), guard)
    read = engine.retrieve(list(ids), with_payload=_DOC, with_vector=False)
    judge(parts, {plain_id(record.id): record.payload for record in read})


def _measured(engine: edge.EdgeShard, declared: Mapping[str, Any]) -> dict[str, Any]:
    found = engine.info()
    return {
        "indexed_vectors_count": found.indexed_vectors_count,
        "segments_count": found.segments_count,
        "payload_schema": {
            key: {
                "data_type": index_type(index),
                "points": index.points,
                "params": declared.get(key),
            }
            for key, index in found.payload_schema.items()
        },
    }


def _rows(records: Iterable[edge.Record]) -> list[Row]:
    return [types.from_record(record) for record in records]
