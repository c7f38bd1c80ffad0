"""Reaching a host that listens. Blocking, and with few imports: a short command asks so, too."""

import socket
import sys
from multiprocessing import AuthenticationError
from multiprocessing import connection as mp
from time import monotonic
from typing import Any

from mcp_server_qdrant.hosting import wire

UNREACHED = (OSError, EOFError, AuthenticationError, ValueError)


class Mute(Exception):
    """The host accepted the connection and does not answer."""


class Foreign(Exception):
    """The host speaks another version of its protocol."""


def knock(found: wire.Rendezvous, version: int, seconds: float) -> socket.socket | None:
    """A socket to the published host; None where it is gone.

    Raises Mute where it says nothing for so long, Foreign where it is of another version.
    """
    try:
        line = _dial(found, seconds)
    except (BlockingIOError, TimeoutError):
        raise Mute from None
    except UNREACHED:
        return None
    if found.wire == version and _hello(line, version, seconds):
        return line
    line.close()
    if found.wire != version:
        raise Foreign
    return None


def ask(line: socket.socket, seconds: float, operation: str, *arguments: Any) -> Any:
    """The answer to the one call of this connection; None where it fails, or takes longer."""
    until = monotonic() + seconds
    call = wire.Call(0, operation, arguments, until, "")
    try:
        with mp.Connection(line.detach()) as link:
            link.send_bytes(wire.pack([tuple(call)]))
            if not link.poll(seconds):
                return None
            ((_, well, value),) = wire.unpack(link.recv_bytes())
    except (*UNREACHED, *wire.UNREADABLE):
        return None
    return value if well else None


def _dial(found: wire.Rendezvous, seconds: float) -> socket.socket:
    """Connect and prove to each other that both know the key; a host that hangs times out."""
    line = socket.socket(socket.AF_INET if sys.platform == "win32" else socket.AF_UNIX)
    try:
        line.settimeout(seconds)
        line.connect(found.place())
        line.settimeout(None)
        wire.limit_waits(line, receive=seconds, send=seconds)
        with mp.Connection(line.dup().detach()) as link:
            mp.answer_challenge(link, found.key)
            mp.deliver_challenge(link, found.key)
    except UNREACHED:
        line.close()
        raise
    return line


def _hello(line: socket.socket, version: int, seconds: float) -> bool:
    try:
        with mp.Connection(line.dup().detach()) as link:
            return bool(link.poll(seconds) and wire.unpack(link.recv_bytes())[0][2] == version)
    except (OSError, EOFError, *wire.UNREADABLE):
        return False
