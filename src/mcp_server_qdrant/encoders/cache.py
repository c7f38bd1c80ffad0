"""The vectors of recent queries."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial

Vector = tuple[float, ...]


class QueryCache:
    """The vectors of the last `size` distinct queries; equal queries that overlap are made once.

    Belongs to one event loop.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._pending: dict[str, asyncio.Future[Vector]] = {}

    async def get(self, text: str, encode: Callable[[], Awaitable[Vector]]) -> Vector:
        """The vector of `text`, made by `encode` unless it is known or already being made."""
        if (known := self._vectors.get(text)) is not None:
            self._vectors.move_to_end(text)
            return known
        pending = self._pending.get(text)
        if pending is None:
            pending = asyncio.ensure_future(encode())
            self._pending[text] = pending
            pending.add_done_callback(partial(self._settle, text))
        # One caller that gives up must not take the vector from the others.
        return await asyncio.shield(pending)

    def clear(self) -> None:
        """Forget all vectors."""
        self._vectors.clear()

    def _settle(self, text: str, done: asyncio.Future[Vector]) -> None:
        del self._pending[text]
        if done.cancelled() or done.exception() is not None:
            return
        self._vectors[text] = done.result()
        while len(self._vectors) > self.size:
            self._vectors.popitem(last=False)
