"""Finding a running host of a kind, or starting one. Blocking: call it in a thread."""

import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.hosting.rendezvous import Foreign, Rendezvous

LOCKED = 3  # exit code: another host is at that place
FULL = 4  # exit code: there is no room on the disk
_HELLO_SECONDS = 5.0
_LONGEST_LOG = 1 << 20


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


def connect(service: Service, timeout: float) -> socket.socket:
    """A socket to the host. Raises the service's `unavailable` error."""
    _own(service)
    until = time.monotonic() + timeout
    started: subprocess.Popen[bytes] | None = None
    while time.monotonic() < until:
        if (line := _dialled(service)) is not None:
            return line
        if started is None:
            started = _start(service)
        elif (code := started.poll()) is not None:
            started = None
            if code == FULL:
                raise _not_started(service, "the disk is full")
            if code not in (0, LOCKED):  # 0: it ended before this slow client came
                raise service.unavailable("could not be started; see its log.")
            time.sleep(0.1)  # another one begins or ends
        time.sleep(0.01)
    raise service.unavailable(f"did not answer within {timeout:.0f} seconds.")


def _dialled(service: Service) -> socket.socket | None:
    """A socket to the host that is published; None where none answers."""
    found = Rendezvous.read(service.rendezvous)
    try:
        return None if found is None else found.dial(service.wire, _HELLO_SECONDS)
    except TimeoutError:
        return None
    except Foreign:
        raise service.error(
            "Another version of this server is using the folder; stop it or use the same version."
        ) from None


def _own(service: Service) -> None:
    """Make the folder. Raises the `unavailable` error when it belongs to somebody else."""
    folder = service.folder
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        raise _not_started(service, error.strerror or type(error).__name__) from None
    if sys.platform != "win32" and owner != os.getuid():
        raise service.error(f"{service.place} belongs to another user; choose one of your own.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise service.error(
            f"{service.place} cannot be written to: fix its permissions, or let"
            f" {service.setting} name another."
        )


def _not_started(service: Service, reason: str) -> BackendError:
    return service.unavailable(f"could not be started: {reason}.")


def _log(path: Path) -> BinaryIO:
    """The host's log, for this user only; emptied when it has become long."""
    long = path.exists() and path.stat().st_size > _LONGEST_LOG
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if long else os.O_APPEND)
    file = os.fdopen(os.open(path, flags, 0o600), "wb" if long else "ab")
    path.chmod(0o600)
    return file


def _start(service: Service) -> "subprocess.Popen[bytes]":
    """Start a host that outlives this process if others use it."""
    # -P and cwd: nothing in the directory this process was started in is imported.
    command = [sys.executable, "-P", "-m", service.module, str(service.folder), service.options]
    try:
        with _log(service.log) as log:
            process = subprocess.Popen(
                command,
                cwd=service.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        raise _not_started(service, error.strerror or type(error).__name__) from None
    threading.Thread(target=process.wait, name="host-reaper", daemon=True).start()
    return process
