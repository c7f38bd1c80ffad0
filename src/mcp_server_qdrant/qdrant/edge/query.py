"""One query on its way to the engine, from plain data to what it finds."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_id, check_query, unknown_vector
from mcp_server_qdrant.qdrant.edge.shards import Shard, View
from mcp_server_qdrant.qdrant.edge.slices import Steps, retrieved
from mcp_server_qdrant.qdrant.edge.walk import ordered

TIES = 4  # fused results of equal score come in random order: so many more are asked for
_NO_PAYLOAD = False


class Query:
    """One query request on its way to the engine."""

    def __init__(
        self,
        view: View,
        request: Mapping[str, Any],
        filters: "Mapping[int, edge.Filter | None]",
    ) -> None:
        """`filters` are the engine's of those of the request (`filters_of`), by their identity."""
        self._view, self._request = view, request
        self._filters = filters

    def _filter(self, plain: Mapping[str, Any] | None) -> edge.Filter | None:
        return None if plain is None else self._filters[id(plain)]

    def _params(self, plain: Mapping[str, Any]) -> edge.SearchParams:
        params = plain.get("params")
        return types.to_params(params, self._filter(_corpus(params)))

    def run(self) -> Steps[list[tuple[Any, ...]]]:
        """Scored points as plain data; fused ones of equal score in the order of their ids."""
        request = self._request
        limit, offset = request.get("limit", 10), request.get("offset") or 0
        shown = request.get("with_payload"), request.get("with_vector")
        if limit < 0 or offset < 0:
            raise RequestError("Neither the limit nor the offset of a query can be negative.")
        if limit == 0:
            return []
        check_names(shown[1], self._view.shard)
        query = request.get("query")
        if isinstance(query, dict) and "order_by" in query:
            order, where = query["order_by"], request.get("filter")
            rows = yield from ordered(self._view, where, order, limit + offset, shown)
            return _as_scored(rows)[offset:]
        if isinstance(query, dict) and ("rrf" in query or "fusion" in query):
            found = self.search(limit + offset + TIES, 0)
            found.sort(key=lambda point: (-point.score, str(point.id)))
            found = found[offset : offset + limit]
        else:
            found = self.search(limit, offset)
        if not shown[0] and not shown[1]:
            return [types.from_scored(point) for point in found]
        ids = [point.id for point in found]
        records = yield from retrieved(self._view, ids, types.to_selector(shown[0]), shown[1])
        known = {record.id: record for record in records}
        there = [point for point in found if point.id in known]
        return [types.from_scored(point, known[point.id], shown[0]) for point in there]

    def search(self, limit: int, offset: int) -> list[edge.ScoredPoint]:
        """What the engine finds, as it comes, without what it holds."""
        scoring, where = self._scoring(self._request, limit + offset)
        return self._view.engine.query(
            edge.QueryRequest(
                limit,
                offset,
                query=scoring,
                prefetches=self._prefetches(self._request),
                filter=where,
                params=self._params(self._request),
                score_threshold=self._request.get("score_threshold"),
                with_payload=False,
                with_vector=False,
            )
        )

    def _prefetches(self, plain: Mapping[str, Any]) -> list[edge.Prefetch] | None:
        return [self._prefetch(one) for one in plain.get("prefetch") or ()] or None

    def _prefetch(self, plain: Mapping[str, Any]) -> edge.Prefetch:
        limit = plain.get("limit", 10)
        scoring, where = self._scoring(plain, limit)
        return edge.Prefetch(
            limit,
            query=scoring,
            prefetches=self._prefetches(plain),
            params=self._params(plain),
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
        check_query(nearest, using, self._view.shard.sidecar)
        mmr = isinstance(query, dict) and query.get("mmr")
        if mmr:
            diversity = 0.5 if mmr.get("diversity") is None else mmr["diversity"]
            candidates = mmr.get("candidates_limit") or max(limit, 100)
            vector = types.to_vector(nearest)
            return edge.Mmr(vector, 1.0 - diversity, candidates, using=using or None), where
        return edge.Query.Nearest(types.to_vector(nearest), using=using or None), where

    def _vector_of(self, point_id: int | str, using: str) -> Any:
        check_id(point_id)
        sidecar = self._view.shard.sidecar
        if using not in sidecar["vectors"] and using not in sidecar["sparse_vectors"]:
            raise RequestError(unknown_vector(using, sidecar))
        found = self._view.engine.retrieve([point_id], _NO_PAYLOAD, True)  # noqa: FBT003
        if not found:
            raise RequestError(f"There is no point with id {point_id}.")
        vectors = types.from_vectors(found[0].vector)
        vector = vectors.get(using) if isinstance(vectors, dict) else vectors
        if not vector:
            raise RequestError(f"The point {point_id} has no vector {using!r}.")
        return vector


def filters_of(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every filter in a request."""
    for where in (request.get("filter"), _corpus(request.get("params"))):
        if where is not None:
            yield where
    for one in request.get("prefetch") or ():
        yield from filters_of(one)


def _corpus(params: Any) -> Any:
    """The filter of the points over which words are weighed."""
    idf = (params or {}).get("idf")
    return idf["corpus"] if isinstance(idf, Mapping) else None


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


def check_names(with_vector: Any, shard: Shard) -> None:
    """Refuse to show vectors the collection does not have."""
    if isinstance(with_vector, list):
        for name in with_vector:
            if name not in shard.sidecar["vectors"] and name not in shard.sidecar["sparse_vectors"]:
                raise RequestError(unknown_vector(name, shard.sidecar))


def _as_scored(records: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*record, 1.0, 0) for record in records]
