"""Payloads, and what is asked of them, in slices: whoever reads them keeps all others waiting.

For each condition that no index answers the engine reads a point's whole payload again: 3 MB take a
tenth of a second. So such conditions are asked beforehand, of a few points at a time and, where
payloads are heavy, a few at a time too; searched then are the ids that are left. Each function
is a generator that pauses where others may be let in.
"""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

import qdrant_edge as edge

from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.index import (
    Condition,
    answered,
    heaviest,
    is_filter,
    listed,
    parted,
    weight,
)
from mcp_server_qdrant.qdrant.edge.shards import View

T = TypeVar("T")
Steps = Generator[None, None, T]

_SECONDS = 0.01  # that a slice should take
_IDS = 10_000  # read in one slice
_POINTS = 128  # that one condition is asked of in one slice
_PAYLOADS = 32  # handed out by one slice
_FEW = 2  # conditions that are asked before it is known how heavy the payloads are
_CHANGE = 4  # how many times as many the next slice may take
_READ = edge.IsEmptyCondition("_")  # reads the payload, for no index has this key


class Pace:
    """How many at once: `size`, then more as long as they take a short time."""

    def __init__(self, most: int, size: int = 1) -> None:
        self._most = most
        self.size = size
        self._began = self._longest = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._longest = max(self._longest, time.monotonic() - self._began)

    def parts(self, several: Sequence[T]) -> Iterator[Sequence[T]]:
        """The parts, each as large as those before it allow. The work on them is done inside."""
        start = 0
        while start < len(several):
            some = several[start : start + self.size]
            start += len(some)
            self._longest = 0.0
            yield some
            times = min(_SECONDS / max(self._longest, 1e-6), _CHANGE)
            self.size = min(max(int(self.size * times), 1), self._most)


def reading(
    view: View, ids: Sequence[Any], selector: Any, vectors: Any
) -> Iterator[tuple[Sequence[Any], list[edge.Record]]]:
    """A slice of the ids at a time, and those of its points that exist, in the same order."""
    pace = Pace(_PAYLOADS, view.shard.at_once)
    for some in pace.parts(ids):
        with pace:
            records = view.engine.retrieve(list(some), selector, vectors)
        yield some, records
    view.shard.at_once = pace.size


def retrieved(
    view: View, ids: Sequence[Any], selector: Any, vectors: Any
) -> Steps[list[edge.Record]]:
    """All of them."""
    found: list[edge.Record] = []
    for _, records in reading(view, ids, selector, vectors):
        found += records
        yield
    return found


def narrowed(
    view: View,
    where: Condition | None,
    made: Callable[[Condition], edge.Filter | None] = types.to_filter,
) -> Steps[edge.Filter | None]:
    """A filter that indexes answer, and that the same points meet now.

    `made` makes the engine's of one that they answer as it is.
    """
    if where is None:
        return None
    if answered(where, view.indexes):
        return made(where)
    quick, slow = parted(where, view.indexes)
    ids: set[Any] = set()
    for some in _meeting(view, quick, slow):
        ids.update(some)
        yield
    return edge.Filter(must=[*map(types.to_condition, quick), edge.HasIdCondition(ids)])


def matching(
    view: View, where: Condition | None, offset: Any = None, page: int = _IDS
) -> Iterator[list[Any]]:
    """The ids of the points that meet a filter, in their order, as they are found.

    Each list is a slice, and may be empty; where indexes answer, it is a `page`.
    """
    quick, slow = parted(where or {}, view.indexes)
    return _meeting(view, quick, slow, offset, _IDS if slow else page)


def _meeting(
    view: View,
    quick: Sequence[Condition],
    slow: Sequence[Condition],
    offset: Any = None,
    page: int = _IDS,
) -> Iterator[list[Any]]:
    where = edge.Filter(must=[types.to_condition(one) for one in quick]) if quick else None
    asker = _Asker(view, slow)
    while True:
        request = edge.ScrollRequest(
            limit=page, offset=offset, filter=where, with_payload=False, with_vector=False
        )
        records, offset = view.engine.scroll(request)
        yield from asker.meeting([record.id for record in records])
        if offset is None:
            return


class _Asker:
    """Asks conditions of points, in slices."""

    def __init__(self, view: View, slow: Sequence[Condition]) -> None:
        self._view = view
        self._where: Condition = {"must": list(slow)}
        self._weight = weight(self._where)
        self._pace = Pace(max(_POINTS // heaviest(self._where), 1))
        self._made: dict[int, Any] = {}  # the engine's conditions, made once

    def meeting(self, ids: Sequence[Any]) -> Iterator[list[Any]]:
        """Those that meet all conditions, a slice at a time."""
        if not self._weight:
            yield list(ids)
            return
        for some in self._pace.parts(ids):
            most = _FEW
            if self._weight > _FEW:
                seconds = self._timed(some)
                yield []
                most = max(int(_SECONDS / seconds), 1)
            found = yield from self._those(self._where, list(some), most)
            yield found

    def _timed(self, ids: Sequence[Any]) -> float:
        """Seconds that one reading of their payloads takes."""
        began = time.monotonic()
        self._ask(ids, _READ)
        return max(time.monotonic() - began, 1e-6)

    def _ask(self, ids: Sequence[Any], condition: Any) -> list[Any]:
        only = edge.Filter(must=[edge.HasIdCondition(set(ids)), condition])
        request = edge.ScrollRequest(
            limit=len(ids), filter=only, with_payload=False, with_vector=False
        )
        with self._pace:
            return [record.id for record in self._view.engine.scroll(request)[0]]

    def _those(
        self, where: Condition, ids: list[Any], most: int
    ) -> Generator[list[Any], None, list[Any]]:
        """Those that meet a condition, in whose parts `most` are asked at once."""
        if not ids:
            return ids
        if not is_filter(where) or weight(where) <= most:
            found = self._ask(ids, self._made_of(where))
            yield []
            return found
        for part in _grouped(where.get("must"), most, "must"):
            ids = yield from self._those(part, ids, most)
        for part in _grouped(where.get("must_not"), most, "should"):
            out = set((yield from self._those(part, ids, most)))
            ids = [one for one in ids if one not in out]
        if listed(where.get("should")):
            found_any: set[Any] = set()
            for part in _grouped(where["should"], most, "should"):
                left = [one for one in ids if one not in found_any]
                found_any.update((yield from self._those(part, left, most)))
            ids = [one for one in ids if one in found_any]
        if least := where.get("min_should"):
            counts: Counter[Any] = Counter()
            for one in listed(least["conditions"]):
                counts.update((yield from self._those(one, ids, most)))
            ids = [one for one in ids if counts[one] >= least["min_count"]]
        return ids

    def _made_of(self, where: Condition) -> Any:
        """The engine's condition; those at the ends are made once."""
        if is_filter(where):
            least = where.get("min_should")
            return edge.Filter(
                **{name: self._all(where.get(name)) for name in ("must", "should", "must_not")},
                min_should=least
                and edge.MinShould(self._all(least["conditions"]) or [], least["min_count"]),
            )
        if id(where) not in self._made:
            self._made[id(where)] = types.to_condition(where)
        return self._made[id(where)]

    def _all(self, clause: Any) -> list[Any] | None:
        return [self._made_of(one) for one in listed(clause)] or None


def _grouped(clause: Any, most: int, how: str) -> Iterator[Condition]:
    """The conditions of a clause, as many together as may be asked at once."""
    group: list[Condition] = []
    size = 0
    for one in listed(clause):
        if group and size + weight(one) > most:
            yield group[0] if len(group) == 1 else {how: group}
            group, size = [], 0
        group.append(one)
        size += weight(one)
    if group:
        yield group[0] if len(group) == 1 else {how: group}
