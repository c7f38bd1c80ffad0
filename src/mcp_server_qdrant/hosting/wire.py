"""The protocol of a host and its clients: frames, rendezvous file, address, errors.

A frame is a pickled list. Requests are a `Call`'s fields, replies `(id, ok, value)`, where a failed
reply's value is `(error class name, arguments)`, or None where the call came too late to be done.
Only plain data travels.
"""

import contextlib
import json
import math
import os
import pickle
import socket
import stat
import struct
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from mcp_server_qdrant.core import errors

BUFFER_BYTES = 200_000  # of a socket; what is sent directly must fit
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LONGEST_SOCKET_PATH = 100  # bytes; the kernel's limit is 104 (macOS) or 108 (Linux)


Reply = tuple[int, bool, Any]


class Call(NamedTuple):
    """A request, for whom, and until when anybody waits: on the clock of `time.monotonic`.

    That clock is one for all processes of a machine.
    """

    number: int
    operation: str
    arguments: tuple[Any, ...]
    until: float
    caller: str

    @property
    def late(self) -> bool:
        """True once nobody waits for it."""
        return time.monotonic() > self.until

    @property
    def dropped(self) -> Reply:
        """The reply to a call that was not done because it was late."""
        return self.number, False, None


class Rendezvous(NamedTuple):
    """Where a host listens, a path or `host:port`, and the key that opens it."""

    address: str
    key: bytes
    pid: int
    wire: int

    def place(self) -> str | tuple[str, int]:
        """The address as sockets take it."""
        if sys.platform != "win32":
            return self.address
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def write(self, path: Path) -> None:
        """Publish, readable by this user only."""
        address, key, pid, version = self
        fields = {"address": address, "key": key.hex(), "pid": pid, "wire": version}
        write_atomically(path, json.dumps(fields))

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


def write_atomically(path: Path, text: str) -> None:
    """Replace the file as a whole: readers see the old text or the new, also after a crash."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def sync(folder: Path) -> None:
    """Make what was created or renamed in the folder safe from a power failure."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _private(found: os.stat_result) -> bool:
    """True where only this user can have written or read the file."""
    if sys.platform == "win32":
        return True
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
    return own and not found.st_mode & 0o077


def identity(path: Path) -> tuple[int, int] | None:
    """The identity of a file, which another that takes its place has not; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def socket_address(place: Path) -> str | tuple[str, int]:
    """A fresh private address for this process; on Windows a free port of this machine alone."""
    if sys.platform == "win32":
        return "127.0.0.1", 0
    name = f"{mark(place)}-{os.getpid()}.sock"
    base = _temporary()
    room = _LONGEST_SOCKET_PATH - len(name) - len("/mcpq-") - 8
    private = _private_dir(Path(base if len(os.fsencode(base)) < room else "/tmp"))  # noqa: S108
    return str(private / name)


def _temporary() -> str:
    """The folder of temporary files; also on a full disk, where a socket still has room."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return "/tmp"  # noqa: S108


def mark(place: Path) -> str:
    """A short name of a place, the same for every process."""
    return sha256(os.fsencode(place.resolve())).hexdigest()[:16]


def _private_dir(base: Path) -> Path:
    """A directory only this user can enter, even if someone else took the usual name."""
    if sys.platform == "win32":
        return base
    path = base / f"mcpq-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        path.chmod(0o700)
        return path
    return Path(tempfile.mkdtemp(prefix="mcpq-", dir=base))


def pack(message: Any) -> bytes:
    """One frame; an object that occurs twice in it travels once."""
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


# Raised by a frame that is no message.
UNREADABLE = (
    *(pickle.UnpicklingError, ValueError, TypeError),
    *(AttributeError, LookupError, ImportError),
)


def unpack(frame: bytes) -> Any:
    """The message of a frame that came over an authenticated connection."""
    return pickle.loads(frame)  # noqa: S301


def calls(frame: bytes) -> list[Call]:
    """The requests of a frame."""
    return [Call(*plain) for plain in unpack(frame)]


def framed(frame: bytes) -> bytes:
    """The frame as `Connection.send_bytes` writes it."""
    return struct.pack("!i", len(frame)) + frame


class Frames:
    """The frames that `Connection.send_bytes` writes, put together from pieces as they come."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, piece: bytes | memoryview) -> list[bytes]:
        """The frames that are whole with this piece. Raises ValueError for one of 2 GB and more."""
        self._kept += piece
        frames = []
        start = 0
        while len(self._kept) >= start + 4:
            (size,) = struct.unpack_from("!i", self._kept, start)
            if size < 0:
                raise ValueError("a frame of 2 GB or more")
            end = start + 4 + size
            if end > len(self._kept):
                break
            frames.append(bytes(self._kept[start + 4 : end]))
            start = end
        del self._kept[:start]
        return frames


def error_out(error: errors.QdrantMcpError) -> tuple[str, tuple[Any, ...]]:
    """An error as plain data."""
    if isinstance(error, errors.UnknownCollection):
        return "UnknownCollection", (error.name, error.near)
    for kind in type(error).__mro__:
        if getattr(errors, kind.__name__, None) is kind:
            return kind.__name__, (str(error),)
    return errors.EngineFailure.__name__, (str(error),)


def error_in(plain: tuple[str, tuple[Any, ...]]) -> errors.QdrantMcpError:
    """The error that `error_out` described."""
    kind, arguments = plain
    found = getattr(errors, kind, None)
    if not (isinstance(found, type) and issubclass(found, errors.QdrantMcpError)):
        found = errors.EngineFailure
    error: errors.QdrantMcpError = found(*arguments)
    return error


def limit_waits(connection: Any, *, receive: float, send: float) -> None:
    """Let a receive or send that takes longer (seconds; 0 is for ever) fail with OSError."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as plain:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # macOS gives 8 KB only
            if plain.getsockopt(socket.SOL_SOCKET, option) < BUFFER_BYTES:
                plain.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        for option, seconds in ((socket.SO_RCVTIMEO, receive), (socket.SO_SNDTIMEO, send)):
            fraction, whole = math.modf(seconds)
            packed = struct.pack("ll", int(whole), int(fraction * 1e6))
            plain.setsockopt(socket.SOL_SOCKET, option, packed)
