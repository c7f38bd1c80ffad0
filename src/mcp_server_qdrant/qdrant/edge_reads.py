"""What can be asked: every read of the engine, on plain data.

Each function takes the shards, the arguments as they came over the wire, and returns plain data.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.errors import RequestError
from mcp_server_qdrant.qdrant import edge_types as types
from mcp_server_qdrant.qdrant.edge_check import check_id, check_ids, check_query, unknown_vector
from mcp_server_qdrant.qdrant.edge_schema import index_type
from mcp_server_qdrant.qdrant.edge_shards import IndexNeeded, Shard, Shards, guarded

TIES = 4  # fused results of equal score come in random order: so many more are asked for
_PAGE = 1_000
_NO_PAYLOAD = False


class Reads:
    """The reads of one host."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._nearest = _Nearest()

    def collections(self) -> list[str]:
        """All names."""
        return self._shards.names()

    def info(self, name: str) -> dict[str, Any]:
        """Sidecar, exact count, segments and payload indexes."""
        shard = self._shards.get(name)
        engine = self._shards.engine(shard)
        with guarded(name):
            found = engine.info()
            schema = {
                key: {"data_type": index_type(index), "points": index.points}
                for key, index in found.payload_schema.items()
            }
        declared = shard.sidecar.get("indexes", {})
        for key, index in schema.items():
            index["params"] = declared.get(key)
        return {
            **shard.sidecar,
            "points_count": self._shards.exact_count(shard),
            "indexed_vectors_count": found.indexed_vectors_count,
            "segments_count": found.segments_count,
            "optimising": shard.record is not None,
            "payload_schema": schema,
        }

    def query(self, name: str, requests: list[dict[str, Any]]) -> list[list[tuple[Any, ...]]]:
        """Scored points for each request."""
        shard = self._shards.get(name)
        engine = self._shards.engine(shard)
        with guarded(name):
            filters: dict[int, edge.Filter | None] = {}
            return [
                _Query(shard, engine, request, self._nearest, filters).run() for request in requests
            ]

    def scored(
        self, name: str, legs: list[dict[str, Any]], k: int, limit: int, with_payload: Any
    ) -> list[tuple[Any, ...]]:
        """The best points by RRF over the legs, each with its exact score on every leg.

        Rows of `(id, payload, rrf, scores)`; a score is None where the point lacks the vector.
        """
        shard = self._shards.get(name)
        engine = self._shards.engine(shard)
        if limit <= 0:
            return []
        with guarded(name):
            fused = {"prefetch": legs, "query": {"rrf": {"k": k}}}
            query = _Query(shard, engine, fused, self._nearest, {})
            found = [
                (point.id, point.score, point.payload)
                for point in query.search(limit + TIES, 0, (with_payload, False))
            ]
            rows = [(types.from_id(i), i, score, payload) for i, score, payload in found]
            rows.sort(key=lambda row: (-row[2], str(row[0])))
            rows = rows[:limit]
            scores = [query.exact(leg, {row[1] for row in rows}) for leg in legs]
        return [
            (point_id, payload, rrf, [one.get(own) for one in scores])
            for point_id, own, rrf, payload in rows
        ]

    def retrieve(
        self, name: str, ids: list[Any], with_payload: Any, with_vector: Any
    ) -> list[tuple[Any, ...]]:
        """The points that exist, in the order asked for."""
        shard = self._shards.get(name)
        check_ids(ids)
        _check_names(with_vector, shard)
        with guarded(name):
            found = self._shards.engine(shard).retrieve(
                ids, types.to_selector(with_payload), with_vector
            )
            return [types.from_record(record) for record in found]

    def scroll(
        self, name: str, where: Any, limit: int, order_by: Any, offset: Any, shown: tuple[Any, Any]
    ) -> tuple[list[tuple[Any, ...]], Any]:
        """One page and where the next begins."""
        shard = self._shards.get(name)
        engine = self._shards.engine(shard)
        if offset is not None:
            check_id(offset)
        _check_names(shown[1], shard)
        if limit <= 0:
            raise RequestError("The limit of a scroll must be at least 1.")
        if order_by is not None:
            with guarded(name):
                return _ordered(engine, where, order_by, limit, shown), None
        with guarded(name):
            records, following = engine.scroll(
                edge.ScrollRequest(
                    offset=offset,
                    limit=limit,
                    filter=types.to_filter(where),
                    with_payload=types.to_selector(shown[0]),
                    with_vector=shown[1],
                )
            )
            return [types.from_record(r) for r in records], types.from_id(following)

    def count(self, name: str, where: Any, exact: bool) -> int:  # noqa: ARG002, FBT001
        """How many points match, always exact (an estimate double counts after a crash)."""
        shard = self._shards.get(name)
        if where is None:
            return self._shards.exact_count(shard)
        with guarded(name):
            request = edge.CountRequest(exact=True, filter=types.to_filter(where))
            return self._shards.engine(shard).count(request)

    def facet(self, name: str, key: str, where: Any, limit: int) -> list[tuple[Any, int]]:
        """The most frequent values of a field; counted by scrolling when no index helps."""
        shard = self._shards.get(name)
        engine = self._shards.engine(shard)
        if limit <= 0:
            raise RequestError("The limit of a facet must be at least 1.")
        try:
            with guarded(name):
                request = edge.FacetRequest(
                    key, limit=limit, exact=True, filter=types.to_filter(where)
                )
                return [(types.from_id(hit.value), hit.count) for hit in engine.facet(request).hits]
        except IndexNeeded:
            with guarded(name):
                return _counted(engine, where, key, limit)


class _Nearest:
    """The engine's query for a dense vector: a search over many collections sends it once."""

    def __init__(self) -> None:
        self._vector: list[Any] | None = None
        self._made: dict[tuple[str, int], Any] = {}

    def of(self, vector: list[Any], using: str, shard: Shard) -> Any:
        """Check and convert the vector, once per name and size."""
        if vector is not self._vector:
            self._vector, self._made = vector, {}
        params = shard.sidecar["vectors"].get(using)
        key = using, params["size"] if params else 0
        if key not in self._made:
            check_query(vector, using, shard.sidecar)
            self._made[key] = edge.Query.Nearest(vector, using=using or None)
        return self._made[key]


class _Query:
    """One query request on its way to the engine."""

    def __init__(
        self,
        shard: Shard,
        engine: edge.EdgeShard,
        request: Mapping[str, Any],
        nearest: "_Nearest",
        filters: "dict[int, edge.Filter | None]",
    ) -> None:
        self._shard, self._engine, self._request = shard, engine, request
        self._nearest = nearest
        self._filters = filters

    def _filter(self, plain: Mapping[str, Any] | None) -> edge.Filter | None:
        """The engine's filter, made once where the requests of a call share one."""
        if plain is None:
            return None
        if id(plain) not in self._filters:
            self._filters[id(plain)] = types.to_filter(plain)
        return self._filters[id(plain)]

    def run(self) -> list[tuple[Any, ...]]:
        request = self._request
        limit, offset = request.get("limit", 10), request.get("offset") or 0
        shown = request.get("with_payload"), request.get("with_vector")
        if limit < 0 or offset < 0:
            raise RequestError("Neither the limit nor the offset of a query can be negative.")
        if limit == 0:
            return []
        _check_names(shown[1], self._shard)
        bare = not shown[0] and not shown[1]
        query = request.get("query")
        if isinstance(query, dict) and "order_by" in query:
            order = query["order_by"]
            return _as_scored(
                _ordered(self._engine, request.get("filter"), order, limit + offset, shown)
            )[offset:]
        if isinstance(query, dict) and ("rrf" in query or "fusion" in query):
            found = self.search(limit + offset + TIES, 0, shown)
            rows = [types.from_scored(point, bare=bare) for point in found]
            rows.sort(key=lambda row: (-row[types.SCORE], str(row[0])))
            return rows[offset : offset + limit]
        found = self.search(limit, offset, shown)
        return [types.from_scored(point, bare=bare) for point in found]

    def search(self, limit: int, offset: int, shown: tuple[Any, Any]) -> list[edge.ScoredPoint]:
        """What the engine finds, as it comes."""
        scoring, where = self._scoring(self._request, limit + offset)
        return self._engine.query(
            edge.QueryRequest(
                limit,
                offset,
                query=scoring,
                prefetches=self._prefetches(self._request),
                filter=where,
                params=types.to_params(self._request.get("params")),
                score_threshold=self._request.get("score_threshold"),
                with_payload=types.to_selector(shown[0]) or False,
                with_vector=shown[1] or False,
            )
        )

    def exact(self, leg: Mapping[str, Any], ids: set[Any]) -> dict[Any, float]:
        """The leg's exact score of each of these points that has its vector."""
        if not ids:
            return {}
        scoring, _ = self._scoring(leg, len(ids))
        only = edge.Filter(must=[edge.HasIdCondition(ids)])
        request = edge.QueryRequest(
            len(ids),
            query=scoring,
            filter=only,
            params=types.to_params({"exact": True}),
            with_payload=False,
            with_vector=False,
        )
        return {point.id: point.score for point in self._engine.query(request)}

    def _prefetches(self, plain: Mapping[str, Any]) -> list[edge.Prefetch] | None:
        return [self._prefetch(one) for one in plain.get("prefetch") or ()] or None

    def _prefetch(self, plain: Mapping[str, Any]) -> edge.Prefetch:
        limit = plain.get("limit", 10)
        scoring, where = self._scoring(plain, limit)
        return edge.Prefetch(
            limit,
            query=scoring,
            prefetches=self._prefetches(plain),
            params=types.to_params(plain.get("params")),
            filter=where,
            score_threshold=plain.get("score_threshold"),
        )

    def _scoring(self, plain: Mapping[str, Any], limit: int) -> tuple[Any, edge.Filter | None]:
        """What scores, and the filter (to which a query by id adds that id)."""
        query, where = plain.get("query"), self._filter(plain.get("filter"))
        if query is None:
            return None, where
        if isinstance(query, dict) and "nearest" not in query and "indices" not in query:
            return _special(query), where
        nearest = query["nearest"] if isinstance(query, dict) and "nearest" in query else query
        using = plain.get("using") or ""
        if isinstance(nearest, int | str):
            nearest, where = self._vector_of(nearest, using), _without(nearest, where)
        if type(query) is list:
            return self._nearest.of(query, using, self._shard), where
        check_query(nearest, using, self._shard.sidecar)
        mmr = isinstance(query, dict) and query.get("mmr")
        if mmr:
            diversity = 0.5 if mmr.get("diversity") is None else mmr["diversity"]
            candidates = mmr.get("candidates_limit") or max(limit, 100)
            vector = types.to_vector(nearest)
            return edge.Mmr(vector, 1.0 - diversity, candidates, using=using or None), where
        return edge.Query.Nearest(types.to_vector(nearest), using=using or None), where

    def _vector_of(self, point_id: int | str, using: str) -> Any:
        check_id(point_id)
        sidecar = self._shard.sidecar
        if using not in sidecar["vectors"] and using not in sidecar["sparse_vectors"]:
            raise RequestError(unknown_vector(using, sidecar))
        found = self._engine.retrieve([point_id], _NO_PAYLOAD, True)  # noqa: FBT003
        if not found:
            raise RequestError(f"There is no point with id {point_id}.")
        vectors = types.from_vectors(found[0].vector)
        vector = vectors.get(using) if isinstance(vectors, dict) else vectors
        if not vector:
            raise RequestError(f"The point {point_id} has no vector {using!r}.")
        return vector


def _special(query: Mapping[str, Any]) -> Any:
    if "rrf" in query or "fusion" in query:
        return types.to_fusion(query)
    if "order_by" in query:
        return types.to_order(query["order_by"])
    if "sample" in query:
        return edge.Sample.Random
    raise types.refuse(next(iter(query), "empty"))


def _without(point_id: int | str, where: edge.Filter | None) -> edge.Filter:
    return edge.Filter(must=[where] if where else None, must_not=[edge.HasIdCondition({point_id})])


def _check_names(with_vector: Any, shard: Shard) -> None:
    if isinstance(with_vector, list):
        for name in with_vector:
            if name not in shard.sidecar["vectors"] and name not in shard.sidecar["sparse_vectors"]:
                raise RequestError(unknown_vector(name, shard.sidecar))


def _as_scored(records: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*record, 1.0, 0) for record in records]


def _ordered(
    engine: edge.EdgeShard, where: Any, order_by: Any, limit: int, shown: tuple[Any, Any]
) -> list[tuple[Any, ...]]:
    """The first points in that order; sorted here when no index can."""
    selector, vectors = types.to_selector(shown[0]) or False, shown[1] or False
    try:
        with guarded(""):
            records, _ = engine.scroll(
                edge.ScrollRequest(
                    limit=limit,
                    filter=types.to_filter(where),
                    order_by=types.to_order(order_by),
                    with_payload=selector,
                    with_vector=vectors,
                )
            )
            return [types.from_record(record) for record in records]
    except IndexNeeded:
        values = _sorted_values(engine, where, order_by)[:limit]
        found = {r.id: r for r in engine.retrieve([i for _, i in values], selector, vectors)}
        return [
            (types.from_id(i), found[i].payload, types.from_vectors(found[i].vector), value)
            for value, i in values
            if i in found
        ]


def _sorted_values(engine: edge.EdgeShard, where: Any, order_by: Any) -> list[tuple[Any, Any]]:
    order = {"key": order_by} if isinstance(order_by, str) else order_by
    down, start = order.get("direction") == "desc", _sortable(order.get("start_from"))
    found = [
        (number, point_id)
        for point_id, value in _values(engine, where, order["key"])
        if (number := _sortable(value)) is not None
        and (start is None or (number <= start if down else number >= start))
    ]
    found.sort(key=lambda pair: (pair[0], str(pair[1])), reverse=down)
    return found


def _sortable(value: Any) -> float | int | None:
    """The number a value is ordered by; dates count in microseconds, as in the server."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1e6)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _counted(engine: edge.EdgeShard, where: Any, key: str, limit: int) -> list[tuple[Any, int]]:
    seen: Counter[Any] = Counter()
    for values in _grouped(_values(engine, where, key)):
        seen.update({(type(v), v) for v in values if isinstance(v, str | int)})
    ranked = sorted(seen.items(), key=lambda item: (-item[1], str(item[0][1])))
    return [(value, count) for (_, value), count in ranked[:limit]]


def _grouped(values: Iterable[tuple[Any, Any]]) -> Iterator[list[Any]]:
    last: Any = object()
    group: list[Any] = []
    for point_id, value in values:
        if point_id != last and group:
            yield group
            group = []
        last = point_id
        group.append(value)
    if group:
        yield group


def _values(engine: edge.EdgeShard, where: Any, key: str) -> Iterator[tuple[Any, Any]]:
    """`(point id, value)` of every value the key has, point by point."""
    condition, offset = types.to_filter(where), None
    steps = [step.removesuffix("[]").strip('"') for step in key.split(".")]
    while True:
        records, offset = engine.scroll(
            edge.ScrollRequest(
                offset=offset,
                limit=_PAGE,
                filter=condition,
                with_payload=edge.PayloadSelector.Include([key]),
                with_vector=False,
            )
        )
        for record in records:
            for value in _reach(record.payload, steps):
                yield record.id, value
        if offset is None:
            return


def _reach(value: Any, steps: list[str]) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _reach(item, steps)
    elif not steps:
        yield value
    elif isinstance(value, dict) and steps[0] in value:
        yield from _reach(value[steps[0]], steps[1:])
