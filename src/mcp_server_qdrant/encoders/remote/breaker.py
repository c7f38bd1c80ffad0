"""Leaves a service alone for a while after it has failed."""

from collections.abc import Callable
from time import monotonic

FAILURES = 3
LONGEST = 600.0


class Breaker:
    """Open for `seconds` after so many failures in a row, or for as long as the service asks.

    Once the time is over calls are let through again; the first failure opens it anew.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self.seconds = seconds
        self.reason: str | None = None
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    @property
    def open(self) -> bool:
        """Whether the service is being left alone."""
        return self._clock() < self._until

    def succeeded(self) -> None:
        """Forget what failed."""
        self._failures, self._until, self.reason = 0, 0.0, None

    def failed(self, reason: str, *, at_once: bool = False, wait: float | None = None) -> None:
        """Count a failure. `at_once` opens it whatever went before, `wait` for so many seconds."""
        self._failures += 1
        self.reason = reason
        if at_once or wait is not None or self._failures >= FAILURES:
            self._until = self._clock() + min(max(self.seconds, wait or 0.0), LONGEST)
