"""Context variables that hold a value while a block runs, such as the deadline of the work."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_END: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Inside, tasks and threads started from there too, the variable has this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def within(seconds: float) -> AbstractContextManager[None]:
    """Everything inside, tasks started from it too, is of no use later than in so many seconds."""
    return holding(_END, time.monotonic() + seconds)


def left() -> float | None:
    """Seconds that are left; None where no end was set, or it is past."""
    end = _END.get()
    seconds = None if end is None else end - time.monotonic()
    return seconds if seconds is not None and seconds > 0 else None
