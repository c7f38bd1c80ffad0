"""What can be asked: every read of the engine, on plain data.

Each function takes the shards, the arguments as they came over the wire, and returns plain data.
"""

from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.errors import RequestError
from mcp_server_qdrant.qdrant import edge_types as types
from mcp_server_qdrant.qdrant.edge_check import check_id, check_ids
from mcp_server_qdrant.qdrant.edge_query import Query, check_names
from mcp_server_qdrant.qdrant.edge_schema import index_type
from mcp_server_qdrant.qdrant.edge_shards import IndexNeeded, Shards, guarded
from mcp_server_qdrant.qdrant.edge_walk import counted, ordered


class Reads:
    """The reads of one host."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

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
            "damage": shard.damage(),
            "optimising": shard.record is not None,
            "payload_schema": schema,
        }

    def query(self, name: str, requests: list[dict[str, Any]]) -> list[list[tuple[Any, ...]]]:
        """Scored points for each request."""
        shard = self._shards.get(name)
        engine = self._shards.engine(shard)
        with guarded(name):
            filters: dict[int, edge.Filter | None] = {}
            return [Query(shard, engine, request, filters).run() for request in requests]

    def retrieve(
        self, name: str, ids: list[Any], with_payload: Any, with_vector: Any
    ) -> list[tuple[Any, ...]]:
        """The points that exist, in the order asked for."""
        shard = self._shards.get(name)
        check_ids(ids)
        check_names(with_vector, shard)
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
        check_names(shown[1], shard)
        if limit <= 0:
            raise RequestError("The limit of a scroll must be at least 1.")
        if order_by is not None:
            with guarded(name):
                return ordered(engine, where, order_by, limit, shown), None
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
                return counted(engine, where, key, limit)
