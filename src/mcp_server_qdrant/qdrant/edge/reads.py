"""The reads of the engine that are not searches, on plain data.

Each function takes the arguments as they came over the wire, and returns plain data; one that may
take long is a generator, which pauses where others may be let in.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.answers import remember
from mcp_server_qdrant.qdrant.edge.check import check_id, check_ids, check_names, plain_id
from mcp_server_qdrant.qdrant.edge.schema import index_type
from mcp_server_qdrant.qdrant.edge.shards import Shards, View
from mcp_server_qdrant.qdrant.edge.slices import Steps, matching, narrowed, reading

T = TypeVar("T")
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
        points = self._shards.exact_count(shard)
        known = self._shards.answers(shard)
        if "info" not in known:
            known["info"] = _info(self._shards.engine(shard), shard.sidecar.get("indexes", {}))
        return {
            **shard.sidecar,
            **known["info"],
            "points_count": points,
            "damage": shard.damage(),
            "optimising": shard.record is not None,
        }

    def retrieve(self, name: str, ids: list[Any], shown: Shown) -> Steps[list[Row]]:
        """The points that exist, in the order of the ids."""
        check_ids(ids)
        return (yield from _rows(View(self._shards, name), ids, shown))

    def scroll(
        self, name: str, where: Any, limit: int, offset: Any, shown: Shown
    ) -> Steps[tuple[list[Row], Any]]:
        """One page and where the next begins."""
        page = self._page(name, where, limit, offset, shown)
        asked = ["scroll", where, limit, shown]
        if offset is None:
            page = self._known(name, asked, page, lambda found: not found[0])
        return (yield from page)

    def _page(
        self, name: str, where: Any, limit: int, offset: Any, shown: Shown
    ) -> Steps[tuple[list[Row], Any]]:
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
        asked = ["ordered", where, limit, order, shown]
        first = self._first(name, where, limit, order, shown)
        return (yield from self._known(name, asked, first, lambda found: len(found) < 2))

    def _first(
        self, name: str, where: Any, limit: int, order: Any, shown: Shown
    ) -> Steps[list[Row]]:
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
        return (yield from self._known(name, ["count", where], self._count(name, where)))

    def _count(self, name: str, where: Any) -> Steps[int]:
        narrow = yield from narrowed(View(self._shards, name), where)
        return View(self._shards, name).engine.count(edge.CountRequest(exact=True, filter=narrow))

    def facet(self, name: str, key: str, where: Any, limit: int) -> Steps[list[tuple[Any, int]]]:
        """The most frequent values of a field, which needs an index for it."""
        asked = ["facet", key, where, limit]
        return (yield from self._known(name, asked, self._facet(name, key, where, limit)))

    def _facet(self, name: str, key: str, where: Any, limit: int) -> Steps[list[tuple[Any, int]]]:
        view = View(self._shards, name)
        narrow = yield from narrowed(view, where)
        request = edge.FacetRequest(key, limit=_positive(limit), exact=True, filter=narrow)
        return [(plain_id(hit.value), hit.count) for hit in view.engine.facet(request).hits]

    def _known(
        self,
        name: str,
        asked: list[Any],
        answer: Steps[T],
        small: Callable[[T], bool] = lambda _: True,
    ) -> Steps[T]:
        """The answer as it is known, else found by `answer`; a `small` one is remembered."""
        known, question = self._shards.answers(self._shards.get(name)), json.dumps(asked)
        found: T = known[question] if question in known else (yield from answer)
        if small(found):
            remember(known, question, found)
        return found


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
