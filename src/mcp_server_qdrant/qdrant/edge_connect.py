"""Finding the engine host of a folder, or starting one. Blocking: call it in a thread."""

import socket
import subprocess
import sys
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing import connection as mp
from pathlib import Path
from typing import Any

from mcp_server_qdrant.errors import EngineUnavailable
from mcp_server_qdrant.qdrant import edge_wire as wire

_HOST = "mcp_server_qdrant.qdrant.edge_host"
_LOCKED = 3
_HELLO_SECONDS = 5.0
_SEND_SECONDS = 120.0
_LONGEST_LOG = 1 << 20


def connect(folder: Path, options: wire.EdgeOptions, timeout: float) -> Any:
    """A connection to the host that owns the folder; EngineUnavailable when there is none."""
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
    except (OSError, EOFError):
        return False


def _start(folder: Path, options: wire.EdgeOptions) -> "subprocess.Popen[bytes]":
    """Start a host that outlives this process if others use it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / wire.LOG
        long = path.exists() and path.stat().st_size > _LONGEST_LOG
        with path.open("wb" if long else "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", _HOST, str(folder), options.dumps()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise EngineUnavailable(f"The embedded engine could not be started: {reason}.") from None
    threading.Thread(target=process.wait, name="edge-host-reaper", daemon=True).start()
    return process
