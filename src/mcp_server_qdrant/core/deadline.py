"""The deadline of the current work: set where it is requested, read by the engine."""

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

_END: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Everything inside, tasks started from it too, is of no use later than in so many seconds."""
    token = _END.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def left() -> float | None:
    """Seconds that are left; None where nobody set an end, or it is past."""
    end = _END.get()
    seconds = None if end is None else end - time.monotonic()
    return seconds if seconds is not None and seconds > 0 else None
