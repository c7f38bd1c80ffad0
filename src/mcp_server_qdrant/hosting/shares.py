"""Fair turns among callers that want the same."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

_REMEMBERED = 1_000  # callers that are not there now


class Shares(Generic[T]):
    """Waiting items by caller; the next is of the caller that has used the least time.

    Start-time fair queueing: a caller that comes, or comes again, begins at the time of those that
    are served now. So nobody saves up time, and nobody pays for time that no other caller wanted.
    The items of one caller keep their order.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[T]] = {}
        self._used: dict[Hashable, float] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, caller: Hashable, item: T, *, first: bool = False) -> None:
        """Add an item behind the caller's others, or `first`."""
        queue = self._waiting.get(caller)
        if queue is None:
            queue = self._waiting[caller] = deque()
            self._used[caller] = max(self._used.get(caller, 0.0), self._now)
        (queue.appendleft if first else queue.append)(item)

    def take(self) -> tuple[Hashable, T]:
        """The next item and its caller. Raises ValueError where nothing waits."""
        caller = min(self._waiting, key=self._used.__getitem__)
        self._now = self._used[caller]
        queue = self._waiting[caller]
        item = queue.popleft()
        if not queue:
            del self._waiting[caller]
        return caller, item

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
