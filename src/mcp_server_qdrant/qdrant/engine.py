"""What an engine is asked and answers: the seam between this product and Qdrant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_server_qdrant.core.datatypes import Payload, PointId

Plain = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Leg:
    vector: str
    query: Any
    where: Plain | None = None
    scored: bool = True


@dataclass(frozen=True, slots=True)
class Ask:
    collections: tuple[str, ...]
    legs: tuple[Leg, ...]
    k: int
    limit: int
    fields: tuple[str, ...] = ()
    guard: Plain | None = None


@dataclass(slots=True)
class Found:
    collection: str
    id: PointId
    rrf: float
    scores: list[float | None]
    payload: Payload


@dataclass(slots=True)
class Answer:
    points: list[Found]
    damage: dict[str, str]


@dataclass(frozen=True, slots=True)
class Corpus:
    collections: tuple[str, ...]
    vector: str
    terms: tuple[int, ...]
    guard: Plain | None = None
