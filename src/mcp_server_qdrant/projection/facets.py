"""What the points of a map can be coloured by: tags, age, payload keys with few values."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from mcp_server_qdrant.core.maps import Facet

VALUES = 8
KEYS = 8
COVERED = 0.2  # share of the points that have a value
DAY = "created_at"
MANY_VALUED = ("tags", DAY)  # shown by their most frequent or newest values, however many
UNITS = (10, 7, 4)  # characters of a date: its day, month, year

Facts = Sequence[Mapping[str, Sequence[str]]]


def facets(facts: Facts) -> tuple[Facet, ...]:
    """Tags and age first, then the keys, those that most points have first."""
    held = Counter(key for one in facts for key in one)
    keys = [key for key, count in held.most_common() if count >= COVERED * len(facts)]
    keys.sort(key=lambda key: key not in MANY_VALUED)
    found = (_facet(key, facts) for key in keys)
    return tuple(one for one in found if one)[:KEYS]


def _facet(key: str, facts: Facts) -> Facet | None:
    of = [list(one.get(key, ())) for one in facts]
    if key == DAY:
        of = _periods(of)
    counts = Counter(value for values in of for value in values)
    few = len(counts) <= VALUES
    if len(counts) < 2 or not (few or key in MANY_VALUED):
        return None
    if key == DAY:
        shown = sorted(counts)[-VALUES:]
    else:
        shown = [value for value, _ in counts.most_common(VALUES)]
    place = {value: at for at, value in enumerate(shown)}
    none = len(shown)
    codes = [min((place.get(value, none) for value in values), default=none) for values in of]
    return Facet(key, tuple(shown), np.asarray(codes, np.uint8))


def _periods(days: Sequence[list[str]]) -> list[list[str]]:
    """The dates by day, month or year: the finest of them that makes few values."""
    for length in UNITS:
        cut = [[day[:length] for day in one] for one in days]
        if len({day for one in cut for day in one}) <= VALUES:
            break
    return cut
