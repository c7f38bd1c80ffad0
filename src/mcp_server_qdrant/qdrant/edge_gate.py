"""Inside the host: one thread at a time at the engine."""

import contextlib
import threading
import time
from collections.abc import Iterator

_PATIENCE = 0.05  # seconds the writer lets readers go first


class Gate:
    """One at a time at the engine; readers before the writer, but not forever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: set[int] = set()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """For one read."""
        me = threading.get_ident()
        self._readers.add(me)
        try:
            with self._lock:
                yield
        finally:
            self._readers.discard(me)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """For one piece of a write."""
        until = time.monotonic() + _PATIENCE
        while self._readers and time.monotonic() < until:
            time.sleep(0.0002)
        with self._lock:
            yield

    def shut(self) -> None:
        """Let nobody through any more."""
        self._lock.acquire()
