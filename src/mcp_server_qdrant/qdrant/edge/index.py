"""Filters taken apart: the conditions that indexes answer, and the cost of the others.

Filters and conditions are plain, in REST form.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Condition = Mapping[str, Any]
Indexes = Mapping[str, str]  # payload key -> the type of its index

CLAUSES = frozenset({"must", "should", "must_not", "min_should"})
TEXT_WEIGHT = 32  # an engine splits the text again for each value that it is compared with
_VERTICES = 200  # of a polygon, which cost as much as one condition


def is_filter(condition: Condition) -> bool:
    """True for a filter: it is made of other conditions."""
    return condition.keys() <= CLAUSES


def listed(clause: Any) -> Sequence[Condition]:
    """The conditions of a clause."""
    if clause is None:
        return ()
    return clause if isinstance(clause, list) else (clause,)


def inside(where: Condition) -> Iterator[Condition]:
    """The conditions of a filter, in all its clauses."""
    for name in ("must", "should", "must_not"):
        yield from listed(where.get(name))
    if least := where.get("min_should"):
        yield from listed(least["conditions"])


def weight(condition: Condition) -> int:
    """The cost of a condition, in readings of a payload."""
    if is_filter(condition):
        return sum(map(weight, inside(condition)))
    if nested := condition.get("nested"):
        return max(weight(nested["filter"]), 1)
    match, area = condition.get("match") or {}, condition.get("geo_polygon")
    if not match.keys().isdisjoint(("text", "text_any", "phrase")):
        return TEXT_WEIGHT
    return 1 + len(area["exterior"]["points"]) // _VERTICES if area else 1


def heaviest(condition: Condition) -> int:
    """The weight of the costliest condition, which the engine is asked in one piece."""
    if is_filter(condition):
        return max(map(heaviest, inside(condition)), default=1)
    return weight(condition)


def parted(where: Condition, indexes: Indexes) -> tuple[list[Condition], list[Condition]]:
    """The conditions that must all be met: those that indexes answer, and the others."""
    quick: list[Condition] = []
    slow: list[Condition] = []
    for part in _conjuncts(where):
        (quick if answered(part, indexes) else slow).append(part)
    return quick, slow


def _conjuncts(where: Condition) -> Iterator[Condition]:
    for part in listed(where.get("must")):
        if is_filter(part):
            yield from _conjuncts(part)
        else:
            yield part
    yield from ({"must_not": [part]} for part in listed(where.get("must_not")))
    if listed(where.get("should")):
        yield {"should": where["should"]}
    if where.get("min_should"):
        yield {"min_should": where["min_should"]}


def answered(condition: Condition, indexes: Indexes) -> bool:
    """True if indexes answer all of it."""
    if is_filter(condition):
        return all(answered(part, indexes) for part in inside(condition))
    if "has_id" in condition or "has_vector" in condition:
        return True
    for empty in ("is_empty", "is_null"):
        if isinstance(condition.get(empty), Mapping):
            return condition[empty]["key"] in indexes
    kind = indexes.get(condition.get("key", ""))
    tests = [name for name, value in condition.items() if name != "key" and value is not None]
    return kind is not None and all(_answers(kind, name, condition[name]) for name in tests)


def _answers(kind: str, test: str, wanted: Any) -> bool:
    """True if an index of this kind answers one test of its field."""
    if test in ("is_empty", "is_null"):
        return True
    if test == "match":
        ((how, value),) = wanted.items()
        if how in ("text", "text_any"):
            return kind == "text"
        values = value if how in ("any", "except") else [value]
        exact = how in ("value", "any", "except")
        return exact and all(type(value) is _VALUES.get(kind) for value in values)
    if test == "range":
        limits = [limit for limit in wanted.values() if limit is not None]
        return kind in _RANGES and all(isinstance(limit, _RANGES[kind]) for limit in limits)
    return test.startswith("geo_") and kind == "geo"


_VALUES: Mapping[str, type] = {"keyword": str, "uuid": str, "integer": int, "bool": bool}
_RANGES: Mapping[str, tuple[type, ...]] = {
    "integer": (int, float),
    "float": (int, float),
    "datetime": (str,),
}
