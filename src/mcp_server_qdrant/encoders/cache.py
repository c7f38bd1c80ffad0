"""The vectors of recent queries."""

import asyncio
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

Vector = tuple[float, ...]
Key = tuple[str, str]  # whose query, and its text

_ASKED_BY: ContextVar[str] = ContextVar("asked_by", default="")


@contextmanager
def asked_by(owner: str) -> Iterator[None]:
    """Queries are remembered for this owner alone: the time of an answer tells of them."""
    token = _ASKED_BY.set(owner)
    try:
        yield
    finally:
        _ASKED_BY.reset(token)


class QueryCache:
    """The vectors of the last `size` distinct queries; equal queries that overlap are made once.

    Belongs to one event loop.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._vectors: OrderedDict[Key, array[float]] = OrderedDict()  # a fifth of a tuple's size
        self._pending: dict[Key, asyncio.Future[Vector]] = {}

    async def get(self, text: str, encode: Callable[[], Awaitable[Vector]]) -> Vector:
        """The vector of `text`, made by `encode` unless it is known or already being made."""
        key = (_ASKED_BY.get(), text)
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

    def clear(self) -> None:
        """Forget all vectors."""
        self._vectors.clear()

    def _settle(self, key: Key, done: asyncio.Future[Vector]) -> None:
        del self._pending[key]
        if done.cancelled() or done.exception() is not None:
            return
        self._vectors[key] = array("d", done.result())
        while len(self._vectors) > self.size:
            self._vectors.popitem(last=False)
