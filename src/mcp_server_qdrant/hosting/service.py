"""What tells one kind of host from another."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.errors import BackendError

LOCKED = 3  # exit code: another host is at that place
FULL = 4  # exit code: there is no room on the disk


@dataclass(frozen=True, slots=True)
class Faults:
    """How its faults are told: what it is called, its folder and the setting that names that."""

    called: str
    folder: str
    setting: str
    unavailable: type[BackendError]
    late: type[BackendError]


@dataclass(frozen=True, slots=True)
class Service:
    """One host: `python -m module folder options`, found by its files `folder/name.*`.

    `wire` is the version of what is spoken. `once_only(operation, arguments)` says which calls may
    not be repeated when the host ends during them, `changes(operation)` which leave something
    changed. One that is `expendable` holds nothing that would be lost with it, and is ended where
    it hangs.
    """

    module: str
    folder: Path
    name: str
    wire: int
    options: str
    faults: Faults
    once_only: Callable[[str, tuple[Any, ...]], bool]
    changes: Callable[[str], bool] = lambda _: False
    expendable: bool = False

    @property
    def rendezvous(self) -> Path:
        """Where it listens, while it does."""
        return self.folder / f"{self.name}.json"

    @property
    def lock(self) -> Path:
        """Held by the one that may listen."""
        return self.folder / f"{self.name}.lock"

    @property
    def log(self) -> Path:
        """What it said, for the operator."""
        return self.folder / f"{self.name}.log"
