"""Newer texts rank higher.

    factor = 1 - w + w * exp(-decay * days)

so that age alone never costs more than w. Source: DESIGN 6; decay 0.01 a day is a half-life of
69 days.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from mcp_server_qdrant.core.datatypes import Hit, Payload, by_score
from mcp_server_qdrant.core.notation import date_paths, time_of

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

    def aged(hit: Hit) -> Hit:
        when = timestamp(hit.payload, recency.fields)
        return hit if when is None else hit.rescored("recency", factor(when, recency, now))

    return by_score(map(aged, hits))


def factor(when: datetime, recency: Recency, now: datetime) -> float:
    """The part of a score that is left at the age that `when` has now; in [1 - weight, 1]."""
    days = max((now - when).total_seconds(), 0.0) / SECONDS_A_DAY
    return 1 - recency.weight + recency.weight * math.exp(-recency.decay * days)


def timestamp(payload: Payload | None, fields: tuple[str, ...]) -> datetime | None:
    """The first time found under `fields`."""
    return time_of(payload, _paths(fields))


@cache
def _paths(fields: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths into a payload where a time may be, in their order."""
    return [tuple(path.split(".")) for path in date_paths(fields)]
