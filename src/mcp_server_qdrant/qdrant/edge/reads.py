"""The reads of the engine that are not searches, on plain data.

Each function takes the arguments as they came over the wire, and returns plain data; one that may
take long is a generator, which pauses where others may be let in.
"""

from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_id, check_ids, check_names, plain_id
from mcp_server_qdrant.qdrant.edge.schema import index_type
from mcp_server_qdrant.qdrant.edge.shards import Shards, View
from mcp_server_qdrant.qdrant.edge.slices import Steps, matching, narrowed, reading

Row = tuple[Any, ...]
Shown = tuple[Any, Any, int | None]  # see `plain.shown`


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
        found = self._shards.engine(shard).info()
        declared = shard.sidecar.get("indexes", {})
        schema = {
            key: {
                "data_type": index_type(index),
                "points": index.points,
                "params": declared.get(key),
            }
            for key, index in found.payload_schema.items()
        }
        return {
            **shard.sidecar,
            "points_count": self._shards.exact_count(shard),
            "indexed_vectors_count": found.indexed_vectors_count,
            "segments_count": found.segments_count,
            "damage": shard.damage(),
            "optimising": shard.record is not None,
            "payload_schema": schema,
        }

    def retrieve(self, name: str, ids: list[Any], shown: Shown) -> Steps[list[Row]]:
        """The points that exist, in the order of the ids."""
        check_ids(ids)
        return (yield from _rows(View(self._shards, name), ids, shown))

    def scroll(
        self, name: str, where: Any, limit: int, offset: Any, shown: Shown
    ) -> Steps[tuple[list[Row], Any]]:
        """One page and where the next begins."""
        view = View(self._shards, name)
        if offset is not None:
            check_id(offset)
        ids: list[Any] = []
        for some in matching(view, where, offset, _positive(limit) + 1):
            ids += some
            if len(ids) > limit:
                break
            yield
        following = plain_id(ids[limit]) if len(ids) > limit else None
        del ids[limit:]
        if shown[:2] == (False, False):
            return [(plain_id(point), None, None) for point in ids], following
        return (yield from _rows(view, ids, shown)), following

    def ordered(
        self, name: str, where: Any, limit: int, order: Any, shown: Shown
    ) -> Steps[list[Row]]:
        """The first points in the order of a field, which needs an index for it."""
        view = View(self._shards, name)
        narrow = yield from narrowed(view, where)
        request = edge.ScrollRequest(
            limit=_positive(limit),
            filter=narrow,
            order_by=types.to_order(order),
            with_payload=False,
            with_vector=False,
        )
        ids = [record.id for record in view.engine.scroll(request)[0]]
        return (yield from _rows(view, ids, shown))

    def count(self, name: str, where: Any) -> Steps[int]:
        """The number of points that match; exact, for an estimate double counts after a crash."""
        if where is None:
            return self._shards.exact_count(self._shards.get(name))
        narrow = yield from narrowed(View(self._shards, name), where)
        return View(self._shards, name).engine.count(edge.CountRequest(exact=True, filter=narrow))

    def facet(self, name: str, key: str, where: Any, limit: int) -> Steps[list[tuple[Any, int]]]:
        """The most frequent values of a field, which needs an index for it."""
        view = View(self._shards, name)
        narrow = yield from narrowed(view, where)
        request = edge.FacetRequest(key, limit=_positive(limit), exact=True, filter=narrow)
        return [(plain_id(hit.value), hit.count) for hit in view.engine.facet(request).hits]


def _rows(view: View, ids: list[Any], shown: Shown) -> Steps[list[Row]]:
    """The points that still exist, read in slices."""
    payload, vectors, longest = shown
    check_names(vectors, view.shard.sidecar)
    found: dict[Any, Row] = {}
    for _, records in reading(view, ids, payload, vectors):
        found.update((record.id, types.from_record(record, longest)) for record in records)
        yield
    return list(found.values())


def _positive(limit: int) -> int:
    if limit < 1:
        raise RequestError("A limit must be at least 1.")
    return limit
