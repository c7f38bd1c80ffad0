"""Finding a running host, or starting one. Blocking: call it in a thread."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.hosting.dial import Foreign, dial
from mcp_server_qdrant.hosting.rendezvous import Rendezvous
from mcp_server_qdrant.hosting.service import FULL, LOCKED, Service

_HELLO_SECONDS = 5.0
_LOCKED_PAUSE = 0.1
_LONGEST_LOG = 1 << 20


def connect(service: Service, timeout: float) -> socket.socket:
    """A socket to the host. Raises the service's `unavailable` error."""
    _own(service)
    until = time.monotonic() + timeout
    started: subprocess.Popen[bytes] | None = None
    failures = 0
    while time.monotonic() < until:
        if (line := _dialled(service)) is not None:
            return line
        if started is None:
            started = _start(service)
        elif (code := started.poll()) is not None:
            started = None
            if code == FULL:
                raise _not_started(service, "the disk is full")
            failures += code not in (0, LOCKED)  # 0: it ended before this slow client came
            if failures > 2:
                raise service.unavailable("could not be started; see its log.")
            if code == LOCKED:  # another one begins or ends
                time.sleep(_LOCKED_PAUSE)
        time.sleep(0.01)
    raise service.unavailable(f"did not answer within {timeout:.0f} seconds.")


def _dialled(service: Service) -> socket.socket | None:
    """A socket to the host that is published; None where none answers."""
    found = Rendezvous.read(service.rendezvous)
    try:
        return None if found is None else dial(found, service.wire, _HELLO_SECONDS)
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
    try:
        with _log(service.log) as log:
            process = subprocess.Popen(
                # -P and cwd: nothing in the directory this process was started in is imported.
                [
                    *(sys.executable, "-P", "-m", service.module),
                    *(str(service.folder), service.options),
                ],
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
