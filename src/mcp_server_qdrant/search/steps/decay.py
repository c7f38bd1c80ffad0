"""Newer texts rank higher.

    factor = 1 - w + w * exp(-rate * days)

so that age alone never costs more than w. Source: DESIGN 6; a rate of 0.01 a day is a half-life of
69 days.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from mcp_server_qdrant.core.datatypes import Hit, by_score
from mcp_server_qdrant.core.dates import age_from
from mcp_server_qdrant.core.notation import date_paths

DAY = timedelta(days=1)


def decay(
    hits: Sequence[Hit], weight: float, rate: float, fields: tuple[str, ...], now: datetime
) -> list[Hit]:
    """The hits with the factor of their age, best first. Weight 0 gives them back as they are.

    `fields` are where a payload may keep its time: paths such as `created_at` or `meta.date`;
    without a dot one is also looked for below `metadata`. A time in the future counts as now; a hit
    without a time keeps its score, and so does a text of a file that gives no date.
    """
    if weight <= 0:
        return list(hits)
    paths = [path.split(".") for path in date_paths(fields)]

    def aged(hit: Hit) -> Hit:
        when = age_from(hit.payload, paths)
        return hit if when is None else hit.rescored("recency", factor(now - when, weight, rate))

    return by_score(map(aged, hits))


def factor(age: timedelta, weight: float, rate: float) -> float:
    """The part of a score that is left at this age; in [1 - weight, 1]."""
    return 1 - weight + weight * math.exp(-rate * max(age / DAY, 0.0))
