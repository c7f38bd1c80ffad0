"""The options of the embedded engine of a folder."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EdgeOptions:
    """Limits of the engine.

    min_free: bytes that must stay free on disk. optimise_at: unquantised vectors (or deleted
    points) that trigger an optimisation. quiet_seconds: pause in writing before it starts.
    """

    min_free: int = 256 << 20
    optimise_at: int = 20_000
    quiet_seconds: float = 2.0
