"""Newer texts rank higher.

    factor = 1 - w + w * exp(-decay * days)

so that age alone never costs more than w. Source: DESIGN 6; decay 0.01 a day is a half-life of
69 days.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mcp_server_qdrant.core.datatypes import Hit, Payload, by_score
from mcp_server_qdrant.core.notation import moment

SECONDS_A_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Recency:
    """`weight` w in [0, 1], `decay` per day, `fields` where a payload may keep its time.

    A field is a path such as `created_at` or `meta.date`; without a dot it is also looked for
    below `metadata`.
    """

    weight: float
    decay: float
    fields: tuple[str, ...]


def decay(hits: Sequence[Hit], recency: Recency, now: datetime) -> list[Hit]:
    """The hits with the factor of their age, best first. Weight 0 gives them back as they are.

    A time in the future counts as now; a hit without a time keeps its score.
    """
    if recency.weight <= 0:
        return list(hits)
    steps = list(_steps(recency.fields))
    return by_score(_aged(hit, steps, recency, now) for hit in hits)


def _aged(hit: Hit, steps: Iterable[Sequence[str]], recency: Recency, now: datetime) -> Hit:
    when = _first(hit.payload, steps)
    return hit if when is None else hit.rescored("recency", factor(when, recency, now))


def factor(when: datetime, recency: Recency, now: datetime) -> float:
    """What the age at `now` leaves of a score, in [1 - weight, 1]."""
    days = max((now - when).total_seconds(), 0.0) / SECONDS_A_DAY
    return 1 - recency.weight + recency.weight * math.exp(-recency.decay * days)


def timestamp(payload: Payload | None, fields: Iterable[str]) -> datetime | None:
    """The first time found under `fields`."""
    return _first(payload, _steps(fields))


def _steps(fields: Iterable[str]) -> Iterator[Sequence[str]]:
    """The ways into a payload where a time may be, in their order."""
    for field in fields:
        yield field.split(".")
        if "." not in field:
            yield "metadata", field


def _first(payload: Any, ways: Iterable[Sequence[str]]) -> datetime | None:
    for way in ways:
        value = payload
        for step in way:
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None and (when := moment(value)) is not None:
            return when
    return None
