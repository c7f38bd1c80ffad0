"""Finding the engine host of a folder, or starting one. Blocking: call it in a thread."""

import os
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing import connection as mp
from pathlib import Path
from typing import Any, BinaryIO

from mcp_server_qdrant.errors import EngineUnavailable
from mcp_server_qdrant.qdrant import edge_wire as wire

_HOST = "mcp_server_qdrant.qdrant.edge_host"
_LOCKED = 3
_HELLO_SECONDS = 5.0
_SEND_SECONDS = 120.0
_LONGEST_LOG = 1 << 20


def connect(folder: Path, options: wire.EdgeOptions, timeout: float) -> Any:
    """A connection to the host that owns the folder; EngineUnavailable when there is none."""
    folder = folder.absolute()
    _own(folder)
    until = time.monotonic() + timeout
    started: subprocess.Popen[bytes] | None = None
    failures = 0
    while time.monotonic() < until:
        link = _knock(folder)
        if link is not None:
            return link
        if started is None:
            started = _start(folder, options)
        elif (code := started.poll()) is not None:
            started = None
            failures += code != _LOCKED
            if failures > 2:
                raise EngineUnavailable("The embedded engine could not be started; see its log.")
        time.sleep(0.01)
    raise EngineUnavailable(f"The embedded engine did not answer within {timeout:.0f} seconds.")


def _knock(folder: Path) -> Any:
    """A connection to the published host, or None."""
    found = wire.Rendezvous.read(folder)
    if found is None:
        return None
    try:
        link = _dial(found)
    except (OSError, EOFError, AuthenticationError, ValueError):
        return None
    if found.wire == wire.WIRE and _hello(link):
        wire.limit_waits(link, receive=0.0, send=_SEND_SECONDS)
        return link
    link.close()
    if found.wire != wire.WIRE:
        raise EngineUnavailable(
            "Another version of this server is using the folder; stop it or use the same version."
        )
    return None


def _dial(found: wire.Rendezvous) -> Any:
    """Connect and prove to each other that both know the key; a host that hangs is given up."""
    if sys.platform == "win32":
        return mp.Client(found.address, authkey=found.key)
    with socket.socket(socket.AF_UNIX) as plain:
        plain.settimeout(_HELLO_SECONDS)
        plain.connect(found.address)
        plain.setblocking(True)  # noqa: FBT003
        link = mp.Connection(plain.detach())
    try:
        wire.limit_waits(link, receive=_HELLO_SECONDS, send=_HELLO_SECONDS)
        mp.answer_challenge(link, found.key)
        mp.deliver_challenge(link, found.key)
    except (OSError, EOFError, AuthenticationError):
        link.close()
        raise
    return link


def _hello(link: Any) -> bool:
    try:
        return bool(link.poll(_HELLO_SECONDS) and wire.unpack(link.recv_bytes())[0][2] == wire.WIRE)
    except (OSError, EOFError, *wire.UNREADABLE):
        return False


def _own(folder: Path) -> None:
    """Make the folder; EngineUnavailable when it is somebody else's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        raise _not_started(error) from None
    if sys.platform != "win32" and owner != os.getuid():
        raise EngineUnavailable("The data folder belongs to another user; choose one of your own.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EngineUnavailable(
            "The data folder cannot be written to: mend its permissions, or let"
            " QDRANT_LOCAL_PATH name another."
        )


def _not_started(error: OSError) -> EngineUnavailable:
    reason = error.strerror or type(error).__name__
    return EngineUnavailable(f"The embedded engine could not be started: {reason}.")


def _log(path: Path) -> BinaryIO:
    """The host's log, for this user only; begun anew when it has become long."""
    long = path.exists() and path.stat().st_size > _LONGEST_LOG
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if long else os.O_APPEND)
    file = os.fdopen(os.open(path, flags, 0o600), "wb" if long else "ab")
    path.chmod(0o600)
    return file


def _start(folder: Path, options: wire.EdgeOptions) -> "subprocess.Popen[bytes]":
    """Start a host that outlives this process if others use it."""
    try:
        with _log(folder / wire.LOG) as log:
            process = subprocess.Popen(
                # -P and cwd: nothing in the directory this process was started in is imported.
                [sys.executable, "-P", "-m", _HOST, str(folder), options.dumps()],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        raise _not_started(error) from None
    threading.Thread(target=process.wait, name="edge-host-reaper", daemon=True).start()
    return process
