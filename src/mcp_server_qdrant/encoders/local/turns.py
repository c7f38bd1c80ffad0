"""Who may run a model next: queries before batches of documents."""

import contextlib
import threading
from collections.abc import Iterator

PATIENCE = 0.5  # seconds that a batch lets queries go first, one after the other


class Turns:
    """Queries are run one at a time, and a batch that has not begun waits for those there are."""

    def __init__(self) -> None:
        self._one = threading.Lock()
        self._there = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def query(self) -> Iterator[None]:
        """While a query is encoded."""
        with self._changed:
            self._there += 1
        try:
            with self._one:
                yield
        finally:
            with self._changed:
                self._there -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """Until no query is there, but not for ever."""
        with self._changed:
            self._changed.wait_for(lambda: self._there == 0, PATIENCE)
