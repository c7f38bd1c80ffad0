"""The vectors of recent queries."""

import asyncio
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial

from mcp_server_qdrant.encoders.encoder import Vector

Key = tuple[str, str]  # owner and text of a query: the time of an answer tells of it


class QueryCache:
    """The vectors of the last `size` distinct queries; equal queries that overlap are made once.

    Belongs to one event loop.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._vectors: OrderedDict[Key, array[float]] = OrderedDict()  # a fifth of a tuple's size
        self._pending: dict[Key, asyncio.Future[Vector]] = {}

    async def get(self, key: Key, encode: Callable[[], Awaitable[Vector]]) -> Vector:
        """The vector of a query, made by `encode` unless it is known or already being made."""
        if (known := self._vectors.get(key)) is not None:
            self._vectors.move_to_end(key)
            return tuple(known)
        pending = self._pending.get(key)
        if pending is None:
            pending = asyncio.ensure_future(encode())
            self._pending[key] = pending
            pending.add_done_callback(partial(self._settle, key))
        # One caller that gives up must not take the vector from the others.
        return await asyncio.shield(pending)

    def _settle(self, key: Key, done: asyncio.Future[Vector]) -> None:
        del self._pending[key]
        if done.cancelled() or done.exception() or not isinstance(done.result(), tuple):
            return  # a text that the Qdrant server encodes is no vector
        self._vectors[key] = array("d", done.result())
        while len(self._vectors) > self.size:
            self._vectors.popitem(last=False)
