"""The reads of the engine, on plain data.

Each public method is an operation that clients may ask for: it takes the arguments as they came
over the wire, and returns plain data; those that a server has too, in the shapes of its REST
interface.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import qdrant_edge as edge
from typing_extensions import override

from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_vectors, plain_id
from mcp_server_qdrant.qdrant.edge.shards import Shard, Shards, guarded
from mcp_server_qdrant.qdrant.engine import Answer, Ask, Corpus
from mcp_server_qdrant.qdrant.questions import Questions

Body = Mapping[str, Any]  # of a request or a result, as a server's REST interface has it


class Reads:
    """The reads of one host."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

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
                    "data_type": types.index_type(index),
                    "points": index.points,
                    "params": declared.get(key),
                }
                for key, index in found.payload_schema.items()
            },
            "points_count": shard.count(),
            "damage": shard.damage(),
        }

    async def retrieve(self, name: str, asked: Body) -> list[Body]:
        """The points that exist, in the order of the ids."""
        shown = asked["with_payload"], asked["with_vector"]
        return _points(self._shards.get(name).engine.retrieve(asked["ids"], *shown))

    async def scroll(self, name: str, asked: Body) -> Body:
        """One page and where the next begins; None where it is in the order of an indexed field."""
        order = asked.get("order_by")
        request = edge.ScrollRequest(
            limit=asked["limit"],
            offset=asked.get("offset"),
            filter=types.to_filter(asked.get("filter")),
            order_by=None if order is None else types.to_order(order),
            with_payload=asked["with_payload"],
            with_vector=asked["with_vector"],
        )
        records, following = self._shards.get(name).engine.scroll(request)
        following = None if order else plain_id(following)
        return {"points": _points(records), "next_page_offset": following}

    async def count(self, name: str, asked: Body) -> Body:
        """The number of points that match; exact, for an estimate double counts after a crash."""
        shard, where = self._shards.get(name), types.to_filter(asked.get("filter"))
        if where is None:
            return {"count": shard.count()}
        return {"count": shard.engine.count(edge.CountRequest(exact=True, filter=where))}

    async def facet(self, name: str, asked: Body) -> Body:
        """The most frequent values of a field, which needs an index for it."""
        where = types.to_filter(asked.get("filter"))
        request = edge.FacetRequest(asked["key"], limit=asked["limit"], exact=True, filter=where)
        hits = self._shards.get(name).engine.facet(request).hits
        return {"hits": [{"value": plain_id(hit.value), "count": hit.count} for hit in hits]}

    async def candidates(self, ask: Ask) -> Answer:
        """The candidates of a search in one collection."""
        with guarded(*ask.collections):
            return await ShardQuestions(self._shards).candidates(ask)

    async def idfs(self, corpus: Corpus) -> dict[int, float]:
        """The idf of terms in one collection."""
        with guarded(*corpus.collections):
            return await ShardQuestions(self._shards).idfs(corpus)


class ShardQuestions(Questions):
    """The questions of one call to the shards. What they share is converted once for each."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._made: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    @override
    async def batch(self, name: str, requests: Sequence[Body]) -> list[list[Any]]:
        shard = self._shards.get(name)
        return [self._points(shard, request) for request in requests]

    def _points(self, shard: Shard, asked: Body) -> list[Any]:
        match asked:
            case {"filter": {"must": [{"has_id": ids}]}, **others} if "query" not in others:
                # Quicker than a query.
                return shard.engine.retrieve(ids, asked["with_payload"], with_vector=False)
        return shard.engine.query(self._request(shard.sidecar, asked))

    @override
    async def weighed(self, name: str, using: str) -> bool:
        declared = self._shards.get(name).sidecar["sparse_vectors"]
        return bool(declared.get(using, {}).get("modifier") == "idf")

    @override
    def damage(self, name: str, guard: Body | None) -> str | None:
        return self._shards.get(name).damage(numbers=guard is None)

    def _request(self, sidecar: Body, plain: Body) -> edge.QueryRequest:
        return edge.QueryRequest(
            plain["limit"],
            query=self._query(sidecar, plain),
            prefetches=[
                edge.Prefetch(
                    one["limit"],
                    query=self._query(sidecar, one),
                    filter=self._filter(one),
                    params=self._params(one),
                )
                for one in plain.get("prefetch", ())
            ],
            filter=self._filter(plain),
            params=self._params(plain),
            with_payload=plain.get("with_payload", False),
            with_vector=plain.get("with_vector", False),
        )

    def _query(self, sidecar: Body, plain: Body) -> Any:
        query, using = plain.get("query"), plain.get("using", "")
        if query is None:
            return None
        if isinstance(query, dict) and "rrf" in query:
            rrf: Any = edge.Fusion.Rrf(query["rrf"]["k"])  # its stub lacks the base class
            return rrf

        def nearest() -> Any:
            check_vectors({using: query}, sidecar)
            return edge.Query.Nearest(types.to_vector(query), using=using or None)

        declared = [sidecar[kind].get(using) for kind in ("vectors", "sparse_vectors")]
        return self._once(nearest, query, using, str(declared))

    def _filter(self, plain: Body) -> edge.Filter | None:
        """The filter of a request, whose conditions are shared with others."""
        where = plain.get("filter")
        if where is None:
            return None
        must = [self._once(partial(types.to_condition, one), one) for one in where["must"]]
        return edge.Filter(must=must)

    def _params(self, plain: Body) -> edge.SearchParams | None:
        params = plain.get("params")
        if params is None:
            return None
        corpus = params["idf"]["corpus"] if "idf" in params else None
        among = corpus and self._once(partial(types.to_filter, corpus), corpus)
        return types.search_params(exact="exact" in params, corpus=among)

    def _once(self, make: Callable[[], Any], plain: Any, *more: str) -> Any:
        """What is made of a plain value, which is kept: another one may not take its identity."""
        key = id(plain), *more
        if key not in self._made:
            self._made[key] = make(), plain
        return self._made[key][0]


def _points(records: Iterable[edge.Record]) -> list[Body]:
    return [types.from_record(record) for record in records]
