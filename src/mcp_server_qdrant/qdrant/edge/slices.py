"""Payloads, and conditions on them, in slices: reading them keeps all other callers waiting.

For each condition that no index answers the engine reads a point's whole payload again: 3 MB take a
tenth of a second. So such conditions are asked beforehand, one by one and of a few points at a
time; the search is then among the ids that are left. Each function is a generator that pauses where
others may be let in.
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
)
from mcp_server_qdrant.qdrant.edge.shards import View

T = TypeVar("T")
Steps = Generator[None, None, T]

_SECONDS = 0.01  # that a slice should take
_IDS = 10_000  # read in one slice
_POINTS = 128  # tested for one condition in one slice
_PAYLOADS = 32  # handed out by one slice
_CHANGE = 4  # how many times as many the next slice may take


class Pace:
    """The number read at once: `size`, then more as long as they take a short time."""

    def __init__(self, most: int, size: int = 1) -> None:
        self._most = most
        self.size = size
        self._began = self._longest = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._longest = max(self._longest, time.monotonic() - self._began)

    def parts(self, several: Sequence[T]) -> Iterator[Sequence[T]]:
        """The parts, each as large as the last ones allow; the caller times its work on them."""
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


def narrowed(
    view: View,
    where: Condition | None,
    made: Callable[[Condition], edge.Filter | None] = types.to_filter,
) -> Steps[edge.Filter | None]:
    """A filter that the same points meet now and that indexes answer.

    `made` converts a filter that indexes answer as it is.
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
    where = (
        edge.Filter(must=[types.to_condition(condition) for condition in quick]) if quick else None
    )
    asker = _Asker(view, slow)
    while True:
        request = edge.ScrollRequest(
            limit=page, offset=offset, filter=where, with_payload=False, with_vector=False
        )
        records, offset = view.engine.scroll(request)
        ids = [record.id for record in records]
        if slow:
            yield from asker.meeting(ids)
        else:
            yield ids
        if offset is None:
            return


class _Asker:
    """Asks conditions of points: one condition at a time, of as many points as its time allows."""

    def __init__(self, view: View, slow: Sequence[Condition]) -> None:
        self._view = view
        self._where: Condition = {"must": list(slow)}
        self._pace = Pace(max(_POINTS // heaviest(self._where), 1))
        self._made: dict[int, Any] = {}  # the engine's conditions, made once

    def meeting(self, ids: Sequence[Any]) -> Iterator[list[Any]]:
        """The points that meet all conditions, a slice at a time."""
        for some in self._pace.parts(ids):
            found = yield from self._meeting(self._where, list(some))
            yield found

    def _meeting(self, where: Condition, ids: list[Any]) -> Generator[list[Any], None, list[Any]]:
        if not ids:
            return ids
        if not is_filter(where):
            found = self._ask(where, ids)
            yield []
            return found
        for part in listed(where.get("must")):
            ids = yield from self._meeting(part, ids)
        for part in listed(where.get("must_not")):
            excluded = set((yield from self._meeting(part, ids)))
            ids = [point for point in ids if point not in excluded]
        if several := listed(where.get("should")):
            any_of: set[Any] = set()
            for part in several:
                left = [point for point in ids if point not in any_of]
                any_of.update((yield from self._meeting(part, left)))
            ids = [point for point in ids if point in any_of]
        if least := where.get("min_should"):
            counts: Counter[Any] = Counter()
            for part in listed(least["conditions"]):
                counts.update((yield from self._meeting(part, ids)))
            ids = [point for point in ids if counts[point] >= least["min_count"]]
        return ids

    def _ask(self, condition: Condition, ids: list[Any]) -> list[Any]:
        if id(condition) not in self._made:
            self._made[id(condition)] = types.to_condition(condition)
        only = edge.Filter(must=[edge.HasIdCondition(set(ids)), self._made[id(condition)]])
        request = edge.ScrollRequest(
            limit=len(ids), filter=only, with_payload=False, with_vector=False
        )
        with self._pace:
            return [record.id for record in self._view.engine.scroll(request)[0]]
