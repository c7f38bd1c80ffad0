"""The description of a kind of host."""

from dataclasses import dataclass
from pathlib import Path

from mcp_server_qdrant.core.errors import BackendError

LOCKED = 3  # exit code: another host is at that place
FULL = 4  # exit code: there is no room on the disk


@dataclass(frozen=True, slots=True)
class Service:
    """One host: `python -m module folder options`, found by its files `folder/name.*`.

    `wire` is the version of what it says. Of its operations those in `changes` change something,
    and those in `once_only` may not be repeated when the host ends during them. Errors are `error`
    or `late`, and call the host `called`, its folder `place`, and the `setting` that names that.
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
    changes: frozenset[str] = frozenset()
    once_only: frozenset[str] = frozenset()

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
