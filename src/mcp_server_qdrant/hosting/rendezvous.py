"""Where a host listens: a file that tells this user's processes its address and its key.

Reaching it blocks, and imports little: a short command does so, too.
"""

import contextlib
import json
import os
import socket
import stat
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from mcp_server_qdrant.core.disk import write_atomically
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.hosting import wire

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LONGEST_BASE = 80  # bytes; the kernel takes 104 for a socket (macOS) or 108 (Linux)


class Foreign(Exception):
    """The host speaks another version of its protocol."""


class Rendezvous(NamedTuple):
    """A path, or on Windows `host:port`, and the key that opens it."""

    address: str
    key: bytes
    pid: int
    wire: int

    def write(self, path: Path) -> None:
        """Publish, readable by this user only."""
        write_atomically(path, json.dumps({**self._asdict(), "key": self.key.hex()}))

    @classmethod
    def read(cls, path: Path) -> "Rendezvous | None":
        """The published one; None when there is none, no whole one, or others could write it."""
        try:
            handle = os.open(path, os.O_RDONLY | _NO_LINK)
            with os.fdopen(handle, encoding="utf-8") as file:
                if not _private(os.fstat(handle)):
                    return None
                fields = json.load(file)
            key = bytes.fromhex(fields["key"])
            # Fields that another version adds are ignored.
            return cls(str(fields["address"]), key, int(fields["pid"]), int(fields["wire"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @classmethod
    def clear(cls, path: Path) -> None:
        """Remove whatever is there, and the socket of a host that was killed."""
        if found := cls.read(path):
            found.withdraw(path)
        path.unlink(missing_ok=True)

    def withdraw(self, path: Path) -> None:
        """Remove the socket of a host that has ended, and the file unless it is the next one's."""
        if sys.platform != "win32":
            place = Path(self.address)
            with contextlib.suppress(OSError):
                place.unlink(missing_ok=True)
                place.parent.rmdir()
        if self.read(path) == self:
            path.unlink(missing_ok=True)

    def dial(self, version: int, seconds: float) -> socket.socket | None:
        """A socket to the host, which has shown that it knows the key; None if it is gone.

        Raises TimeoutError where it says nothing for so long, Foreign where it is of another
        version.
        """
        line = socket.socket(socket.AF_INET if sys.platform == "win32" else socket.AF_UNIX)
        known = False
        try:
            line.settimeout(seconds)
            line.connect(self._place())
            if self.wire != version:
                raise Foreign
            known = self._greeted(line)
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

    def _place(self) -> str | tuple[str, int]:
        """The address as sockets take it."""
        if sys.platform != "win32":
            return self.address
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def _greeted(self, line: socket.socket) -> bool:
        """Prove to each other that both know the key."""
        theirs, own = _exactly(line, wire.NONCE), os.urandom(wire.NONCE)
        line.sendall(wire.proof(self.key, b"client", theirs) + own)
        return wire.proves(_exactly(line, wire.PROOF), self.key, b"host", own)


def ask(line: socket.socket, seconds: float, operation: str, *arguments: Any) -> Any:
    """The answer to the one call of this connection; None where it fails, or takes longer."""
    try:
        with line:
            line.settimeout(max(seconds, 1e-3))
            call = wire.Call(0, operation, arguments, monotonic() + seconds, "")
            line.sendall(wire.framed(tuple(call)))
            _, answer = wire.unpack(_exactly(line, wire.length(_exactly(line, 4))))
    except (OSError, *wire.UNREADABLE):
        return None
    return None if isinstance(answer, QdrantMcpError) else answer


def _exactly(line: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = line.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _private(found: os.stat_result) -> bool:
    """True where only this user can have written or read the file."""
    if sys.platform == "win32":
        return True
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
    return own and not found.st_mode & 0o077


def socket_path() -> Path:
    """The path of a new socket: short, on this machine, in a folder for this user alone."""
    try:
        base = tempfile.gettempdir()
    except FileNotFoundError:  # a full disk, where a socket still has room
        base = "/tmp"  # noqa: S108
    if len(os.fsencode(base)) > _LONGEST_BASE:
        base = "/tmp"  # noqa: S108
    return Path(tempfile.mkdtemp(prefix="mcpq-", dir=base)) / "s"
