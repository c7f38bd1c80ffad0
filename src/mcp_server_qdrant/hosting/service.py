"""The description of a kind of host."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.errors import BackendError

LOCKED = 3  # exit code: another host is at that place
FULL = 4  # exit code: there is no room on the disk


@dataclass(frozen=True, slots=True)
class Service:
    """One host: `python -m module folder options`, found by its files `folder/name.*`.

    `wire` is the version of the protocol. `once_only(operation, arguments)` says which calls may
    not be repeated when the host ends during them, `changes(operation)` which change something.
    Errors are `error` or `late`, and call the host `called`, its folder `place`, and the `setting`
    that names that.
    """

    module: str
    folder: Path
    name: str
    wire: int
    options: str
    called: str
    place: str
    setting: str
    error: type[BackendError]
    late: type[BackendError]
    once_only: Callable[[str, tuple[Any, ...]], bool]
    changes: Callable[[str], bool] = lambda _: False

    def unavailable(self, what: str) -> BackendError:
        """The error that it cannot be used; `what` follows its name."""
        return self.error(f"{self.called} {what}")

    @property
    def rendezvous(self) -> Path:
        """Its address, while it listens."""
        return self.folder / f"{self.name}.json"

    @property
    def lock(self) -> Path:
        """Held by the process that may listen."""
        return self.folder / f"{self.name}.lock"

    @property
    def log(self) -> Path:
        """Its log, for the operator."""
        return self.folder / f"{self.name}.log"
