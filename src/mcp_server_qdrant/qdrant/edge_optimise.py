"""Optimising a shard without a pause."""

from typing import Any


class Optimiser:
    def __init__(self, *a: Any) -> None: ...
    def tend(self, *, idle: bool = True) -> bool:
        return False

    def stop(self) -> None: ...
