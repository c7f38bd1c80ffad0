"""Finding the engine host of a folder, or starting one. Blocking: call it in a thread."""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from mcp_server_qdrant.errors import EngineUnavailable
from mcp_server_qdrant.qdrant import edge_wire as wire

_HOST = "mcp_server_qdrant.qdrant.edge_host"
_LOCKED = 3
_HELLO_SECONDS = 5.0
_SEND_SECONDS = 30


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
    if found.wire != wire.WIRE and _alive(found):
        raise EngineUnavailable(
            "Another version of this server is using the folder; stop it or use the same version."
        )
    try:
        link = Client(found.address, authkey=found.key)
    except (OSError, EOFError, AuthenticationError, ValueError):
        return None
    try:
        if link.poll(_HELLO_SECONDS) and wire.unpack(link.recv_bytes())[0][2] == wire.WIRE:
            _limit_sends(link)
            return link
    except (OSError, EOFError):
        pass
    link.close()
    return None


def _alive(found: wire.Rendezvous) -> bool:
    """Whether someone listens there."""
    try:
        Client(found.address, authkey=found.key).close()
    except (OSError, EOFError, AuthenticationError, ValueError):
        return False
    return True


def _limit_sends(link: "Connection") -> None:
    """Let a send to a host that hangs fail rather than wait for ever."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(link.fileno())) as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))


def _start(folder: Path, options: wire.EdgeOptions) -> "subprocess.Popen[bytes]":
    """Start a host that outlives this process if others use it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / wire.LOG).open("ab") as log:
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
