"""The order of texts that models read: queries before batches of documents."""

import contextlib
import threading
from collections.abc import Iterator

PATIENCE = 0.5  # seconds that a batch lets queries go first, one after the other


class Turns:
    """Queries run one at a time, and a batch that has not begun waits for those that are there."""

    def __init__(self) -> None:
        self._query = threading.Lock()
        self._waiting = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def query(self) -> Iterator[None]:
        """The turn of a query."""
        with self._changed:
            self._waiting += 1
        try:
            with self._query:
                yield
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """Wait until no query is there, but not for ever."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting == 0, PATIENCE)
