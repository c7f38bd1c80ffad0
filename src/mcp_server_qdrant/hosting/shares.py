"""Fair turns among callers that want the same."""

import time
from collections import deque
from collections.abc import Hashable
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")

_REMEMBERED = 1_000  # callers that are not there now
_LONG = 0.01  # seconds that another caller would notice
_REST = 4  # times as long rests a caller after a long piece
_NEAR = 5.0  # seconds for which a caller that was there counts as one that may come


class Shares(Generic[T]):
    """Waiting items by caller; the next is of the caller that has used the least time.

    Start-time fair queueing: a caller that comes, or comes again, begins at the time of those that
    are served now. So nobody saves up time, and nobody pays for time that no other caller wanted.
    The items of one caller keep their order.

    A piece of work that took long could not be interrupted: the next one of the same caller waits a
    multiple of that time, so that another, who comes in between, seldom meets one. Who is alone
    never waits.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[T]] = {}
        self._used: dict[Hashable, float] = {}
        self._now = 0.0
        self._came: dict[Hashable, float] = {}
        self._rests: dict[Hashable, float] = {}  # until when

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, caller: Hashable, item: T, *, first: bool = False) -> None:
        """Add an item behind the caller's others, or `first`."""
        self._came[caller] = time.monotonic()
        queue = self._waiting.get(caller)
        if queue is None:
            queue = self._waiting[caller] = deque()
            self._used[caller] = max(self._used.get(caller, 0.0), self._now)
        (queue.appendleft if first else queue.append)(item)

    def pause(self) -> float:
        """Seconds until one of those that wait has rested; 0 where one has."""
        rests = [self._rests.get(caller, 0.0) for caller in self._waiting]
        return max(0.0, min(rests, default=0.0) - time.monotonic())

    def take(self) -> tuple[Hashable, T]:
        """The next item and its caller. Raises ValueError where nothing waits."""
        now = time.monotonic()
        self._rests = {who: until for who, until in self._rests.items() if until > now}
        rested = [caller for caller in self._waiting if caller not in self._rests] or self._waiting
        caller = min(rested, key=self._used.__getitem__)
        self._now = self._used[caller]
        queue = self._waiting[caller]
        item = queue.popleft()
        if not queue:
            del self._waiting[caller]
        return caller, item

    def rest(self, caller: Hashable, seconds: float) -> None:
        """The caller rests after a piece of so many seconds, where others are about."""
        now = time.monotonic()
        others = (when for who, when in self._came.items() if who != caller)
        if seconds > _LONG and max(others, default=-inf) > now - _NEAR:
            self._rests[caller] = now + _REST * seconds

    def charge(self, caller: Hashable, seconds: float) -> None:
        """Charge time that the caller has used; free where nobody waits."""
        used = self._used[caller] = self._used.get(caller, self._now) + seconds
        if not self._waiting:
            self._now = max(self._now, used)
        if len(self._used) > _REMEMBERED + len(self._waiting):
            self._used = {
                known: used
                for known, used in self._used.items()
                if used > self._now or known in self._waiting
            }
            self._came = {who: when for who, when in self._came.items() if who in self._used}
