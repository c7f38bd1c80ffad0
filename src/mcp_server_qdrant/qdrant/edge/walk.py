"""Orders and counts for which the engine has no payload index: worked out by scrolling."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.notation import moment
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.shards import IndexNeeded, View, guarded
from mcp_server_qdrant.qdrant.edge.slices import Steps, matching, narrowed, reading, retrieved


def ordered(
    view: View, where: Any, order_by: Any, limit: int, shown: tuple[Any, Any]
) -> Steps[list[tuple[Any, ...]]]:
    """The first points in that order; sorted here when no index can."""
    try:
        narrow = yield from narrowed(view, where)
        with guarded(""):
            request = edge.ScrollRequest(
                limit=limit,
                filter=narrow,
                order_by=types.to_order(order_by),
                with_payload=False,
                with_vector=False,
            )
            values = [(record.order_value, record.id) for record in view.engine.scroll(request)[0]]
    except IndexNeeded:
        values = (yield from _sorted_values(view, where, order_by))[:limit]
    selector, vectors = types.to_selector(shown[0]) or False, shown[1] or False
    records = yield from retrieved(view, [point for _, point in values], selector, vectors)
    found = {record.id: record for record in records}
    return [
        (types.from_id(i), found[i].payload, types.from_vectors(found[i].vector), value)
        for value, i in values
        if i in found
    ]


def _sorted_values(view: View, where: Any, order_by: Any) -> Steps[list[tuple[Any, Any]]]:
    order = {"key": order_by} if isinstance(order_by, str) else order_by
    down, start = order.get("direction") == "desc", _sortable(order.get("start_from"))
    found = []
    for values in _values(view, where, order["key"]):
        found += [
            (number, point_id)
            for point_id, value in values
            if (number := _sortable(value)) is not None
            and (start is None or (number <= start if down else number >= start))
        ]
        yield
    found.sort(key=lambda pair: (pair[0], str(pair[1])), reverse=down)
    return found


def _sortable(value: Any) -> float | int | None:
    """The number a value is ordered by; dates count in microseconds, as in the server."""
    if isinstance(value, str):
        when = moment(value)
        return None if when is None else int(when.timestamp() * 1e6)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def counted(view: View, where: Any, key: str, limit: int) -> Steps[list[tuple[Any, int]]]:
    """The most frequent values of a field and in how many points they are."""
    seen: Counter[Any] = Counter()
    for values in _values(view, where, key):
        once = {(point, type(v), v) for point, v in values if isinstance(v, str | int)}
        seen.update((kind, value) for _, kind, value in once)
        yield
    ranked = sorted(seen.items(), key=lambda item: (-item[1], str(item[0][1])))
    return [(value, count) for (_, value), count in ranked[:limit]]


def _values(view: View, where: Any, key: str) -> Iterator[list[tuple[Any, Any]]]:
    """`(point id, value)` of every value the key has, of some points at a time."""
    steps = [step.removesuffix("[]").strip('"') for step in key.split(".")]
    selector = edge.PayloadSelector.Include([key])
    for ids in matching(view, where):
        yield []
        for _, records in reading(view, ids, selector, vectors=False):
            yield [(one.id, value) for one in records for value in _reach(one.payload, steps)]


def _reach(value: Any, steps: list[str]) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _reach(item, steps)
    elif not steps:
        yield value
    elif isinstance(value, dict) and steps[0] in value:
        yield from _reach(value[steps[0]], steps[1:])
