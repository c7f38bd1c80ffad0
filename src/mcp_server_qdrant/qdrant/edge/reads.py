"""The reads of the engine, on plain data.

Each public method is an operation that clients may ask for: it takes the arguments as they came
over the wire, and returns plain data. The questions of a search go to many collections in one call,
and answer one entry per collection, in their order: the answer or a QdrantMcpError, so that one
collection fails alone. Their `guard` is a filter on everything that such a call reads: no other
point is found, or moves a score.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_vectors, plain_id
from mcp_server_qdrant.qdrant.edge.shards import Shard, Shards, guarded
from mcp_server_qdrant.qdrant.edge.types import index_type
from mcp_server_qdrant.qdrant.payload import judge, parts_in

Row = tuple[Any, ...]
Shown = tuple[Any, Any]  # see `plain.shown`
# Vector name, query vector, filter, and whether scores are wanted.
Asked = tuple[str, Any, Any, bool]
Plain = Mapping[str, Any] | None  # a filter

TIES = 10  # points beyond the limit, so that its last place is the same whatever the order
_RESCORED, _EXACT = types.search_params(), types.search_params(exact=True)
_DOC = ["doc.version", "doc.chunks"]


class Leg(NamedTuple):
    """A leg in the engine's types; `exact`: the parameters of a second look at few points."""

    query: Any
    where: Any
    params: Any
    exact: Any
    scored: bool


class Reads:
    """The reads of one host. `pause` lets other calls run between two collections of a search."""

    def __init__(self, shards: Shards, pause: Callable[[], Awaitable[None]]) -> None:
        self._shards = shards
        self._pause = pause

    async def collections(self) -> list[str]:
        """All names."""
        return self._shards.names()

    async def info(self, name: str) -> dict[str, Any]:
        """The description, the exact count, segments and payload indexes."""
        shard = self._shards.get(name)
        found, declared = shard.engine.info(), shard.sidecar.get("indexes", {})
        return {
            **shard.sidecar,
            "segments_count": found.segments_count,
            "payload_schema": {
                key: {
                    "data_type": index_type(index),
                    "points": index.points,
                    "params": declared.get(key),
                }
                for key, index in found.payload_schema.items()
            },
            "points_count": shard.count(),
            "damage": shard.damage(),
        }

    async def retrieve(self, name: str, ids: list[Any], shown: Shown) -> list[Row]:
        """The points that exist, in the order of the ids."""
        return _rows(self._engine(name).retrieve(ids, *shown))

    async def scroll(
        self, name: str, where: Plain, limit: int, offset: Any, order: Any, shown: Shown
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

    async def count(self, name: str, where: Plain) -> int:
        """The number of points that match; exact, for an estimate double counts after a crash."""
        if where is None:
            return self._shards.get(name).count()
        request = edge.CountRequest(exact=True, filter=types.to_filter(where))
        return self._engine(name).count(request)

    async def facet(self, name: str, key: str, where: Plain, limit: int) -> list[tuple[Any, int]]:
        """The most frequent values of a field, which needs an index for it."""
        request = edge.FacetRequest(key, limit=limit, exact=True, filter=types.to_filter(where))
        hits = self._engine(name).facet(request).hits
        return [(plain_id(hit.value), hit.count) for hit in hits]

    def _engine(self, name: str) -> edge.EdgeShard:
        return self._shards.get(name).engine

    # The questions of a search

    async def candidates(
        self, guard: Plain, asked: Sequence[tuple[str, Sequence[Asked]]], k: int, limit: int
    ) -> list[Any]:
        """The best points by RRF over the legs, each with its exact score on every scored leg.

        An answer is `(ids, rrf, scores per leg, payloads or None, damage)`: lists of equal length,
        best first, and a sentence about lost points. A score is None where the point lacks the
        vector. A leg without scores is one over tags: payloads show who carries them, and are read
        for it.
        """
        narrowed = _narrowing(guard)

        def answer(shard: Shard, legs: Sequence[Asked]) -> Any:
            made = [_leg(shard, narrowed, *leg) for leg in legs]
            ids, rrf, scores = fused(shard.engine, made, k, limit)
            payloads = None
            if not all(leg.scored for leg in made):
                found = _payloads(shard, ids, guard)
                payloads = [found.get(point) for point in ids]
            return ids, rrf, scores, payloads, shard.damage(numbers=guard is None)

        return await self._each(answer, asked)

    async def idfs(
        self, guard: Plain, asked: Sequence[tuple[str, str, Sequence[int]]]
    ) -> list[Any]:
        """The engine's own idf of terms of a sparse vector; absent ones are left out.

        A query of one term with weight 1 scores idf(t) * stored value.
        """
        where = _narrowing(guard)(None)

        def answer(shard: Shard, using: str, terms: Sequence[int]) -> Any:
            vector = {"indices": list(terms), "values": [1.0] * len(terms)}
            check_vectors({using: vector}, shard.sidecar)
            params, _ = _params(shard, using, where)
            found = {term: _idf(shard.engine, using, term, where, params) for term in terms}
            return {term: idf for term, idf in found.items() if idf > 0}

        return await self._each(answer, asked)

    async def payloads(self, guard: Plain, asked: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """The payloads of those points that exist, by id."""

        def answer(shard: Shard, ids: Sequence[Any]) -> Any:
            return _payloads(shard, _allowed(shard.engine, ids, guard), guard)

        return await self._each(answer, asked)

    async def _each(
        self, answer: Callable[..., Any], asked: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """The answers of all collections, one after the other."""
        answers: list[Any] = []
        for name, *arguments in asked:
            try:
                with guarded(name):
                    shard = self._shards.get(name)
                    answers.append(answer(shard, *arguments))
            except QdrantMcpError as error:
                answers.append(error)
            await self._pause()
        return answers


def _narrowing(guard: Plain) -> Callable[[Plain], Any]:
    """Makes the filter of a leg: its own and the guard; of None the guard alone. Each once."""
    made: dict[int, Any] = {}  # by the identity of the plain one

    def narrowed(plain: Plain) -> Any:
        if id(plain) not in made:
            both = [where for where in (guard, plain) if where is not None]
            made[id(plain)] = types.to_filter({"must": both}) if both else None
        return made[id(plain)]

    return narrowed


def _leg(
    shard: Shard,
    narrowed: Callable[[Plain], Any],
    using: str,
    vector: Any,
    where: Plain,
    scored: bool,  # noqa: FBT001
) -> Leg:
    """One leg in the engine's types."""
    check_vectors({using: vector}, shard.sidecar)
    query = edge.Query.Nearest(types.to_vector(vector), using=using or None)
    return Leg(query, narrowed(where), *_params(shard, using, narrowed(None)), scored)


def _params(shard: Shard, using: str, corpus: edge.Filter | None) -> tuple[Any, Any]:
    """Parameters of a search, and of an exact one; idf is that of the points of a corpus."""
    if using in shard.sidecar["vectors"]:
        return _RESCORED, _EXACT
    sparse = shard.sidecar["sparse_vectors"].get(using, {"modifier": "idf"})
    if corpus is None or sparse.get("modifier") != "idf":
        return None, _EXACT
    return types.search_params(corpus=corpus), types.search_params(exact=True, corpus=corpus)


def fused(
    engine: edge.EdgeShard, legs: Sequence[Leg], k: int, limit: int
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


def _scores(engine: edge.EdgeShard, leg: Leg, only: edge.Filter, limit: int) -> dict[Any, float]:
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


def _allowed(engine: edge.EdgeShard, ids: Sequence[Any], guard: Plain) -> Sequence[Any]:
    """The ids of those points that the guard lets through."""
    if guard is None or not ids:
        return ids
    where = types.to_filter({"must": [guard, {"has_id": list(ids)}]})
    request = edge.ScrollRequest(
        limit=len(ids), filter=where, with_payload=False, with_vector=False
    )
    return [plain_id(record.id) for record in engine.scroll(request)[0]]


def _payloads(shard: Shard, ids: Sequence[Any], guard: Plain) -> dict[Any, Any]:
    """The payloads of those that exist, by id.

    Each further part of a text is marked as current or replaced, by the version of its first part:
    reading that here saves the search a trip.
    """
    engine = shard.engine
    records = engine.retrieve(list(ids), with_payload=True, with_vector=False)
    # All exist, as a rule: asking each record for its id takes as long as reading it.
    known = ids if len(records) == len(ids) else [plain_id(record.id) for record in records]
    found = {point: record.payload for point, record in zip(known, records, strict=True)}
    if parts := parts_in(shard.name, found):
        firsts = _allowed(engine, list({first for _, first in parts}), guard)
        read = engine.retrieve(list(firsts), with_payload=_DOC, with_vector=False)
        judge(parts, {plain_id(record.id): record.payload for record in read})
    return found


def _rows(records: Iterable[edge.Record]) -> list[Row]:
    return [types.from_record(record) for record in records]
