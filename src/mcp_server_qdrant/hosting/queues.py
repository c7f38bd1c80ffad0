"""Fair turns among callers that want the same."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Queues(Generic[T]):
    """Items that wait, a queue per caller: callers take turns, one's items keep their order."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, deque[T]] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def put(self, caller: Hashable, item: T) -> None:
        """Add an item behind the caller's others."""
        self._queues.setdefault(caller, deque()).append(item)

    def take(self) -> T:
        """The next item. Raises StopIteration where nothing waits."""
        caller = next(iter(self._queues))
        queue = self._queues.pop(caller)
        item = queue.popleft()
        if queue:
            self._queues[caller] = queue  # behind the others
        return item
