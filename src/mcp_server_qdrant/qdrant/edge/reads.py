"""The reads of the engine that are not searches, on plain data.

Each function takes the arguments as they came over the wire, and returns plain data.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_id, check_ids, check_names, plain_id
from mcp_server_qdrant.qdrant.edge.schema import index_type
from mcp_server_qdrant.qdrant.edge.shards import Shards

Row = tuple[Any, ...]
Shown = tuple[Any, Any]  # see `plain.shown`


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
        return {
            **shard.sidecar,
            **_info(self._shards.engine(shard), shard.sidecar.get("indexes", {})),
            "points_count": self._shards.exact_count(shard),
            "damage": shard.damage(),
            "optimising": shard.optimising,
        }

    def retrieve(self, name: str, ids: list[Any], shown: Shown) -> list[Row]:
        """The points that exist, in the order of the ids."""
        check_ids(ids)
        payload, vectors = self._shown(name, shown)
        return _rows(self._engine(name).retrieve(ids, payload, vectors))

    def scroll(
        self, name: str, where: Any, limit: int, offset: Any, order: Any, shown: Shown
    ) -> tuple[list[Row], Any]:
        """One page and where the next begins; None where it is in the order of an indexed field."""
        payload, vectors = self._shown(name, shown)
        if offset is not None:
            check_id(offset)
        request = edge.ScrollRequest(
            limit=_positive(limit),
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
        request = edge.FacetRequest(
            key, limit=_positive(limit), exact=True, filter=types.to_filter(where)
        )
        hits = self._engine(name).facet(request).hits
        return [(plain_id(hit.value), hit.count) for hit in hits]

    def _engine(self, name: str) -> edge.EdgeShard:
        return self._shards.engine(self._shards.get(name))

    def _shown(self, name: str, shown: Shown) -> Shown:
        check_names(shown[1], self._shards.get(name).sidecar)
        return shown


def _info(engine: edge.EdgeShard, declared: Mapping[str, Any]) -> dict[str, Any]:
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


def _positive(limit: int) -> int:
    if limit < 1:
        raise RequestError("A limit must be at least 1.")
    return limit
