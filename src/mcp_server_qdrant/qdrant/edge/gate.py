"""Turns at the engine: one thread of the host at a time."""

import contextlib
import threading
import time
from collections.abc import Hashable, Iterator

from mcp_server_qdrant.hosting.shares import Shares

_PATIENCE = 0.05  # seconds the writer lets readers go first
_WRITER = "writer"


class Gate:
    """One at a time at the engine; readers before the writer, but not forever.

    The thread that leaves lets in the waiting caller that has used the least time.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: Shares[threading.Lock] = Shares()
        self._readers: set[int] = set()

    @contextlib.contextmanager
    def reading(self, who: Hashable = "") -> Iterator[None]:
        """For one read, or a part of it."""
        me = threading.get_ident()
        self._readers.add(me)
        try:
            with self._inside(who):
                yield
        finally:
            self._readers.discard(me)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """For one piece of a write."""
        until = time.monotonic() + _PATIENCE
        while self._readers and time.monotonic() < until:
            time.sleep(0.0002)
        with self._inside(_WRITER):
            yield

    def shut(self) -> None:
        """Let nobody through any more."""
        self._enter("")

    @contextlib.contextmanager
    def _inside(self, who: Hashable) -> Iterator[None]:
        self._enter(who)
        began = time.monotonic()
        try:
            yield
        finally:
            self._leave(who, time.monotonic() - began)

    def _enter(self, who: Hashable) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.put(who, turn)
        turn.acquire()

    def _leave(self, who: Hashable, seconds: float) -> None:
        with self._guard:
            self._waiting.charge(who, seconds)
            if self._waiting:
                self._waiting.take()[1].release()
            else:
                self._taken = False
