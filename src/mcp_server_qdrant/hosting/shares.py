"""Whose turn it is where many callers want the same."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

_REMEMBERED = 1_000  # callers that are not there now


class Shares(Generic[T]):
    """What waits, by caller. The next is of the caller that has used the least time.

    Who comes, or comes again, begins where those are that are served now: nobody saves up, and
    nobody goes on paying for what others did not miss. (Start-time fair queueing.) What one
    caller has waiting keeps its order.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[T]] = {}
        self._used: dict[Hashable, float] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, caller: Hashable, one: T, *, first: bool = False) -> None:
        """Let it wait for the caller's turn, behind or before what else the caller has waiting."""
        queue = self._waiting.get(caller)
        if queue is None:
            queue = self._waiting[caller] = deque()
            self._used[caller] = max(self._used.get(caller, 0.0), self._now)
        (queue.appendleft if first else queue.append)(one)

    def take(self) -> tuple[Hashable, T]:
        """The next, and whose it is. Raises ValueError where nothing waits."""
        caller = min(self._waiting, key=self._used.__getitem__)
        self._now = self._used[caller]
        queue = self._waiting[caller]
        one = queue.popleft()
        if not queue:
            del self._waiting[caller]
        return caller, one

    def charge(self, caller: Hashable, seconds: float) -> None:
        """So much time was used for the caller. Where nobody waits, nobody missed it."""
        used = self._used[caller] = self._used.get(caller, self._now) + seconds
        if not self._waiting:
            self._now = max(self._now, used)
        if len(self._used) > _REMEMBERED + len(self._waiting):
            self._used = {
                one: used
                for one, used in self._used.items()
                if used > self._now or one in self._waiting
            }
