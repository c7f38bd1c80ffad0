"""Answers to queries as plain objects, with the names that qdrant-client's models have."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from mcp_server_qdrant.core.datatypes import Payload, PointId


@dataclass(slots=True)
class Point:
    """A point that was found; `vector` holds those that were asked for."""

    id: PointId
    score: float
    payload: Payload | None
    vector: Any


class Answer(NamedTuple):
    """The points of one query, best first."""

    points: list[Point]
