"""The deadline of the current work: set where it is requested, read by the engine."""

import time
from contextlib import AbstractContextManager
from contextvars import ContextVar

from mcp_server_qdrant.core.context import holding

_END: ContextVar[float | None] = ContextVar("deadline", default=None)


def within(seconds: float) -> AbstractContextManager[None]:
    """Everything inside, tasks started from it too, is of no use later than in so many seconds."""
    return holding(_END, time.monotonic() + seconds)


def left() -> float | None:
    """Seconds that are left; None where no end was set, or it is past."""
    end = _END.get()
    seconds = None if end is None else end - time.monotonic()
    return seconds if seconds is not None and seconds > 0 else None
