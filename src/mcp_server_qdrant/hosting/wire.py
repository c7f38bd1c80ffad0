"""Where a host listens, and what it and its clients say to each other.

A file, the rendezvous, tells this user's processes the host's address and its key. First they prove
to each other that both know the key: the host sends a nonce, the client its proof and a nonce of
its own, the host its proof. All that follow are frames: the length (4 bytes, big endian) of a
pickle, and the pickle: a `Call`, or a reply `(number, answer)`, where the answer of a failed call
is a QdrantMcpError. Only those and plain data travel.

`dial` and `ask` block and import little, so that a short command can use them.
"""

import contextlib
import hmac
import json
import os
import pickle
import socket
import stat
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_server_qdrant.core.disk import write_atomically
from mcp_server_qdrant.core.errors import QdrantMcpError

if TYPE_CHECKING:
    from asyncio import StreamReader  # a short command does without asyncio

NONCE = PROOF = 32  # bytes
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LONGEST_BASE = 80  # bytes; the kernel takes 104 for a socket (macOS) or 108 (Linux)


class Call(NamedTuple):
    """A request, for whom, and until when anybody waits: on the clock of `time.monotonic`.

    That clock is one for all processes of a machine. `changes`: it changes what is stored.
    """

    number: int
    operation: str
    arguments: tuple[Any, ...]
    until: float
    caller: str
    changes: bool = False

    @property
    def late(self) -> bool:
        """True once nobody waits for it."""
        return time.monotonic() > self.until


def proof(key: bytes, who: bytes, nonce: bytes) -> bytes:
    """That `who` (b"host" or b"client") knows the key, for the one who sent the nonce."""
    return hmac.digest(key, who + nonce, "sha256")


def pack(message: Any) -> bytes:
    """As plain bytes; an object that occurs twice in it travels once."""
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


# Raised by bytes that are no message.
UNREADABLE = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError),
    *(AttributeError, LookupError, ImportError),
)


def unpack(data: bytes) -> Any:
    """The message of somebody who knows the key. Raises one of `UNREADABLE`."""
    return pickle.loads(data)  # noqa: S301


def framed(message: Any) -> bytes:
    """The frame of a message."""
    data = pack(message)
    return struct.pack("!I", len(data)) + data


async def heard(reader: "StreamReader") -> Any:
    """The next message. Raises OSError or one of `UNREADABLE`, at the end EOFError."""
    length = int.from_bytes(await reader.readexactly(4), "big")
    return unpack(await reader.readexactly(length))


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

    def dial(self, seconds: float) -> socket.socket | None:
        """A socket to the host, which has shown that it knows the key; None if it is gone.

        Raises TimeoutError where it says nothing for so long.
        """
        line = socket.socket(socket.AF_INET if sys.platform == "win32" else socket.AF_UNIX)
        known = False
        try:
            line.settimeout(seconds)
            line.connect(self._place())
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
        theirs, own = _exactly(line, NONCE), os.urandom(NONCE)
        line.sendall(proof(self.key, b"client", theirs) + own)
        return hmac.compare_digest(_exactly(line, PROOF), proof(self.key, b"host", own))


def ask(line: socket.socket, seconds: float, operation: str, *arguments: Any) -> Any:
    """The answer to the one call of this connection; None where it fails, or takes longer."""
    try:
        with line:
            line.settimeout(max(seconds, 1e-3))
            call = Call(0, operation, arguments, time.monotonic() + seconds, "")
            line.sendall(framed(tuple(call)))
            length = int.from_bytes(_exactly(line, 4), "big")
            _, answer = unpack(_exactly(line, length))
    except (OSError, *UNREADABLE):
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
