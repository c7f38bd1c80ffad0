"""Reaching a host that listens. Blocking, and with few imports: a short command asks so, too."""

import os
import socket
import sys
from time import monotonic
from typing import Any

from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.rendezvous import Rendezvous


class Foreign(Exception):
    """The host speaks another version of its protocol."""


def dial(found: Rendezvous, version: int, seconds: float) -> socket.socket | None:
    """A socket to the published host, which has shown that it knows the key; None if it is gone.

    Raises TimeoutError where it says nothing for so long, Foreign where it is of another version.
    """
    line = socket.socket(socket.AF_INET if sys.platform == "win32" else socket.AF_UNIX)
    known = False
    try:
        line.settimeout(seconds)
        line.connect(found.place())
        if found.wire != version:
            raise Foreign
        known = _greeted(line, found.key)
    except BlockingIOError:  # its queue is full
        raise TimeoutError from None
    except TimeoutError:
        raise
    except (OSError, EOFError):
        pass
    finally:
        if not known:
            line.close()
    return line if known else None


def ask(line: socket.socket, seconds: float, operation: str, *arguments: Any) -> Any:
    """The answer to the one call of this connection; None where it fails, or takes longer."""
    try:
        with line:
            line.settimeout(max(seconds, 1e-3))
            call = wire.Call(0, operation, arguments, monotonic() + seconds, "")
            line.sendall(wire.framed(wire.pack(tuple(call))))
            _, well, value = wire.unpack(_frame(line))
    except (OSError, *wire.UNREADABLE):
        return None
    return value if well else None


def _greeted(line: socket.socket, key: bytes) -> bool:
    """Prove to each other that both know the key."""
    theirs, own = _frame(line), os.urandom(wire.NONCE)
    line.sendall(wire.framed(wire.proof(key, b"client", theirs) + own))
    return wire.proves(_frame(line), key, b"host", own)


def _frame(line: socket.socket) -> bytes:
    return _exactly(line, wire.length(_exactly(line, 4)))


def _exactly(line: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = line.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
