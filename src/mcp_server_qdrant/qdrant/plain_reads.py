"""qdrant-client's reads as plain data: REST-shaped requests and parsed results.

They are the same for a server and the embedded engine.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.qdrant.engine import Point


class QueryPoints(NamedTuple):
    """The points of one query, best first."""

    points: list[Point]


class PlainRead(NamedTuple):
    """A read: its URL path, the parser of its result, and its arguments in order.

    Arguments map qdrant-client's name to the server's name and a default.
    """

    path: str
    parse: Callable[[Any], Any]
    arguments: Mapping[str, tuple[str, Any]]

    def body(self, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The request body for a call with these arguments."""
        known = {**dict(zip(self.arguments, given, strict=False)), **named}
        body = {sent: known.pop(ours, default) for ours, (sent, default) in self.arguments.items()}
        if known:
            raise TypeError(f"There is no argument {', '.join(known)}")
        return body


def _queries(found: Any) -> list[QueryPoints]:
    return [QueryPoints([_point(raw, raw["score"]) for raw in one["points"]]) for one in found]


def _page(found: Any) -> tuple[list[Point], PointId | None]:
    return _points(found["points"]), found.get("next_page_offset")


def _points(found: Any) -> list[Point]:
    return [_point(raw) for raw in found]


_SHOWN = {"with_payload": ("with_payload", True), "with_vectors": ("with_vector", False)}
CALLS = {
    "query_batch_points": PlainRead(
        "/points/query/batch", _queries, {"requests": ("searches", ())}
    ),
    "scroll": PlainRead(
        "/points/scroll",
        _page,
        {
            "scroll_filter": ("filter", None),
            "limit": ("limit", 10),
            "order_by": ("order_by", None),
            "offset": ("offset", None),
            **_SHOWN,
        },
    ),
    "retrieve": PlainRead("/points", _points, {"ids": ("ids", ()), **_SHOWN}),
    "count": PlainRead(
        "/points/count",
        models.CountResult.model_validate,
        {"count_filter": ("filter", None), "exact": ("exact", True)},
    ),
    "facet": PlainRead(
        "/facet",
        models.FacetResponse.model_validate,
        {
            "key": ("key", ""),
            "facet_filter": ("filter", None),
            "limit": ("limit", 10),
            "exact": ("exact", False),
        },
    ),
    "get_collection": PlainRead("", models.CollectionInfo.model_validate, {}),
}


def _point(raw: Mapping[str, Any], score: Any = 0.0) -> Point:
    """Parse a point. Raises ValueError or the like if it is invalid."""
    point, payload, vector = raw["id"], raw.get("payload"), raw.get("vector")
    score = math.nan if score is None else score  # JSON has no NaN and no infinity
    fits = (isinstance(point, str | int), isinstance(score, float | int))
    if not all(fits) or not isinstance(payload, dict | None):
        raise ValueError("this is not a point")
    if isinstance(vector, dict):
        vector = {
            name: models.SparseVector(**one) if isinstance(one, dict) else one
            for name, one in vector.items()
        }
    return Point(point, score, payload, vector)
