"""A circuit breaker: calls to a failing service pause for a while."""

from collections.abc import Callable
from time import monotonic

FAILURES = 3
LONGEST = 600.0


class Breaker:
    """Opens for `seconds` after several failures in a row, or for as long as the service asks.

    After that time calls are let through; the next failure opens it again.
    """

    def __init__(
        self, seconds: float, failures: int = FAILURES, clock: Callable[[], float] = monotonic
    ) -> None:
        self.seconds = seconds
        self.reason: str | None = None
        self._limit = failures
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the next call is let through; 0 while it is closed."""
        return max(self._until - self._clock(), 0.0)

    @property
    def open(self) -> bool:
        """True while no calls should be made."""
        return self.seconds_left > 0

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures, self._until, self.reason = 0, 0.0, None

    def failed(self, reason: str, *, at_once: bool = False, wait: float | None = None) -> None:
        """Count a failure. `at_once` opens it now, `wait` for at least that many seconds."""
        self._failures += 1
        self.reason = reason
        if at_once or wait is not None or self._failures >= self._limit:
            self._until = self._clock() + max(self.seconds, min(wait or 0.0, LONGEST))
