"""What can be asked: every read of the engine, on plain data.

Each function takes the arguments as they came over the wire, and returns plain data; one that may
take long is a generator, which pauses where others may be let in.
"""

from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_id, check_ids
from mcp_server_qdrant.qdrant.edge.query import Query, check_names, filters_of
from mcp_server_qdrant.qdrant.edge.schema import index_type
from mcp_server_qdrant.qdrant.edge.shards import IndexNeeded, Shards, View, guarded
from mcp_server_qdrant.qdrant.edge.slices import Steps, matching, narrowed, retrieved
from mcp_server_qdrant.qdrant.edge.walk import counted, ordered

Row = tuple[Any, ...]


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

    def query(self, name: str, requests: list[dict[str, Any]]) -> Steps[list[list[Row]]]:
        """Scored points for each request."""
        view = self._at(name)
        filters: dict[int, edge.Filter | None] = {}
        answers = []
        for request in requests:
            for where in filters_of(request):
                if id(where) not in filters:
                    filters[id(where)] = yield from narrowed(view, where)
            answers.append((yield from Query(view, request, filters).run()))
        return answers

    def retrieve(
        self, name: str, ids: list[Any], with_payload: Any, with_vector: Any
    ) -> Steps[list[Row]]:
        """The points that exist, in the order asked for."""
        shard = self._shards.get(name)
        check_ids(ids)
        check_names(with_vector, shard)
        selector = types.to_selector(with_payload)
        found = yield from retrieved(self._at(name), ids, selector, with_vector)
        once = {record.id: record for record in found}
        return [types.from_record(record, with_payload) for record in once.values()]

    def scroll(
        self, name: str, where: Any, limit: int, order_by: Any, offset: Any, shown: tuple[Any, Any]
    ) -> Steps[tuple[list[Row], Any]]:
        """One page and where the next begins."""
        view = self._at(name)
        if offset is not None:
            check_id(offset)
        check_names(shown[1], view.shard)
        if limit <= 0:
            raise RequestError("The limit of a scroll must be at least 1.")
        if order_by is not None:
            return (yield from ordered(view, where, order_by, limit, shown)), None
        ids: list[Any] = []
        for some in matching(view, where, offset, limit + 1):
            ids += some
            if len(ids) > limit:
                break
            yield
        following = types.from_id(ids[limit]) if len(ids) > limit else None
        del ids[limit:]
        if shown[0] is False and shown[1] is False:
            return [(types.from_id(one), None, None, None) for one in ids], following
        records = yield from retrieved(view, ids, types.to_selector(shown[0]), shown[1])
        return [types.from_record(record, shown[0]) for record in records], following

    def count(self, name: str, where: Any, exact: bool) -> Steps[int]:  # noqa: ARG002, FBT001
        """How many points match, always exact (an estimate double counts after a crash)."""
        if where is None:
            return self._shards.exact_count(self._shards.get(name))
        narrow = yield from narrowed(self._at(name), where)
        return self._at(name).engine.count(edge.CountRequest(exact=True, filter=narrow))

    def facet(self, name: str, key: str, where: Any, limit: int) -> Steps[list[tuple[Any, int]]]:
        """The most frequent values of a field; counted by reading them when no index helps."""
        view = self._at(name)
        if limit <= 0:
            raise RequestError("The limit of a facet must be at least 1.")
        narrow = yield from narrowed(view, where)
        try:
            with guarded(name):
                request = edge.FacetRequest(key, limit=limit, exact=True, filter=narrow)
                return [
                    (types.from_id(hit.value), hit.count) for hit in view.engine.facet(request).hits
                ]
        except IndexNeeded:
            return (yield from counted(view, where, key, limit))

    def _at(self, name: str) -> View:
        return View(self._shards, name)
