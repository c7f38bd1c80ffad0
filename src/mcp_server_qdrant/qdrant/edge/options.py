"""The options of the engine host of a folder."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EdgeOptions:
    """The behaviour of a host; the first client's options count while that host lives.

    idle_seconds: how long the host outlives its last client. min_free: bytes that must stay free on
    the disk. optimise_at: vectors not yet quantised (or points deleted) that make an optimisation
    worthwhile. quiet_seconds: pause in writing before it starts.
    """

    idle_seconds: float = 5.0
    min_free: int = 256 << 20
    optimise_at: int = 20_000
    quiet_seconds: float = 2.0
