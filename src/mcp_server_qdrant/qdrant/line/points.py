"""Answers to queries as plain objects, with the names that qdrant-client's models have."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from qdrant_client import models

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


def apart(request: models.QueryRequest) -> tuple[Any, tuple[Any, ...]]:
    """The query of a request, and all else that it asks for, which many requests share."""
    parts = dict(request.__dict__)  # all fields, in their order
    query = parts.pop("query")
    return query, tuple(parts.values())
