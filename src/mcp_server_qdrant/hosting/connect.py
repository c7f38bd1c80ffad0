"""Finding a running host, or starting one. Blocking: call it in a thread."""

import os
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing import connection as mp
from pathlib import Path
from typing import BinaryIO

from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.service import FULL, LOCKED, Service

_HELLO_SECONDS = 5.0
_LONGEST_LOG = 1 << 20


def connect(service: Service, timeout: float) -> socket.socket:
    """A socket to the host. Raises the service's `unavailable` error."""
    _own(service)
    until = time.monotonic() + timeout
    started: subprocess.Popen[bytes] | None = None
    failures = 0
    while time.monotonic() < until:
        found = wire.Rendezvous.read(service.rendezvous)
        if found is not None and (line := _knock(service, found)) is not None:
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
        time.sleep(0.01)
    raise service.unavailable(f"did not answer within {timeout:.0f} seconds.")


def _knock(service: Service, found: wire.Rendezvous) -> socket.socket | None:
    """A socket to the published host, or None."""
    try:
        line = _dial(found)
    except (OSError, EOFError, AuthenticationError, ValueError):
        return None
    if found.wire == service.wire and _hello(line, service.wire):
        return line
    line.close()
    if found.wire != service.wire:
        raise service.error(
            "Another version of this server is using the folder; stop it or use the same version."
        )
    return None


def _dial(found: wire.Rendezvous) -> socket.socket:
    """Connect and prove to each other that both know the key; a host that hangs times out."""
    line = socket.socket(socket.AF_INET if sys.platform == "win32" else socket.AF_UNIX)
    try:
        line.settimeout(_HELLO_SECONDS)
        line.connect(found.place())
        line.settimeout(None)
        wire.limit_waits(line, receive=_HELLO_SECONDS, send=_HELLO_SECONDS)
        with mp.Connection(line.dup().detach()) as link:
            mp.answer_challenge(link, found.key)
            mp.deliver_challenge(link, found.key)
    except (OSError, EOFError, AuthenticationError, ValueError):
        line.close()
        raise
    return line


def _hello(line: socket.socket, version: int) -> bool:
    try:
        with mp.Connection(line.dup().detach()) as link:
            return bool(
                link.poll(_HELLO_SECONDS) and wire.unpack(link.recv_bytes())[0][2] == version
            )
    except (OSError, EOFError, *wire.UNREADABLE):
        return False


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
