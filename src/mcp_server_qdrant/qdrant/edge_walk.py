"""Orders and counts for which the engine has no payload index: worked out by scrolling."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.notation import moment
from mcp_server_qdrant.qdrant import edge_types as types
from mcp_server_qdrant.qdrant.edge_shards import IndexNeeded, guarded

_PAGE = 1_000


def ordered(
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
        when = moment(value)
        return None if when is None else int(when.timestamp() * 1e6)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def counted(engine: edge.EdgeShard, where: Any, key: str, limit: int) -> list[tuple[Any, int]]:
    """The most frequent values of a field and in how many points they are."""
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
