"""The rendezvous file, and the mutual authentication of client and service.

The file tells this user's processes the service's address and key. On a connection the service
sends a nonce, the client its proof and a nonce, and the service its proof. Then both sides send
lines (`hosting/pipe.py`).

Only a little of the standard library is imported, because a client's pipe must start fast.
"""

import hmac
import json
import os
import socket
import stat
import sys
from contextlib import suppress

PROTOCOL = 1  # version of the protocol after authentication
NONCE = PROOF = 32  # bytes
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LONGEST_BASE = 80  # bytes; the kernel takes 104 for a socket (macOS) or 108 (Linux)

Name = str | os.PathLike[str]


def rendezvous_path(url: str | None, local: Name, cache: Name) -> str:
    """The path of the rendezvous file: for the Qdrant server at `url`, or the folder `local`.

    `cache` is this program's cache folder.
    """
    if not url:
        return os.path.join(local, "service.json")
    from hashlib import sha256

    name = f"service-{sha256(url.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}.json"
    return os.path.join(cache, "services", name)


def proof(key: bytes, who: bytes, nonce: bytes) -> bytes:
    """The proof of `who` (b"host" or b"client") that it knows the key: an HMAC over the nonce."""
    return hmac.digest(key, who + nonce, "sha256")


class Rendezvous:
    """A service's address (a socket path; on Windows `host:port`) and key.

    `pid` is its process, `protocol` the protocol version, `version` the package version.
    """

    def __init__(
        self, address: str, key: bytes, pid: int, protocol: int, version: str = ""
    ) -> None:
        self.address, self.key, self.pid = address, key, pid
        self.protocol, self.version = protocol, version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rendezvous) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def write(self, path: Name) -> None:
        """Write the file, readable by this user only. Raises OSError."""
        from pathlib import Path  # 10 ms, which only the service should pay

        from mcp_server_qdrant.core.disk import write_atomically

        fields = {"address": self.address, "key": self.key.hex(), "pid": self.pid}
        text = json.dumps({**fields, "wire": self.protocol, "version": self.version})
        write_atomically(Path(path), text)

    @classmethod
    def read(cls, path: Name) -> "Rendezvous | None":
        """Read the file; None if it is missing, invalid, or accessible to other users."""
        try:
            handle = os.open(path, os.O_RDONLY | _NO_LINK)
            with os.fdopen(handle, encoding="utf-8") as file:
                if not _is_private(os.fstat(handle)):
                    return None
                fields = json.load(file)
            key, version = bytes.fromhex(fields["key"]), str(fields.get("version", ""))
            # Unknown fields, of another version, are ignored.
            address, pid = str(fields["address"]), int(fields["pid"])
            return cls(address, key, pid, int(fields["wire"]), version)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None

    @classmethod
    def clear(cls, path: Name) -> None:
        """Remove a stale file, and the socket of a service that was killed."""
        if found := cls.read(path):
            found.withdraw(path)
        with suppress(FileNotFoundError):
            os.unlink(path)

    def withdraw(self, path: Name) -> None:
        """Remove the service's socket, and the file unless another service wrote it."""
        if sys.platform != "win32":
            with suppress(OSError):
                os.unlink(self.address)
            with suppress(OSError):
                os.rmdir(os.path.dirname(self.address))
        if self.read(path) == self:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def dial(self, seconds: float) -> socket.socket | None:
        """Connect and authenticate; None if the service is gone.

        The socket is blocking. Raises TimeoutError if the service is silent for `seconds`.
        """
        connection = socket.socket(socket.AF_INET if sys.platform == "win32" else socket.AF_UNIX)
        known = False
        try:
            connection.settimeout(seconds)
            if sys.platform == "win32":
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.connect(self._socket_address())
            known = self._authenticate(connection)
            connection.settimeout(None)
        except BlockingIOError:  # the listen queue is full
            raise TimeoutError from None
        except TimeoutError:
            raise
        except (OSError, EOFError, ValueError):
            pass
        finally:
            if not known:
                connection.close()
        return connection if known else None

    def _socket_address(self) -> str | tuple[str, int]:
        """The address in the form that `connect` takes."""
        if sys.platform != "win32":
            return self.address
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def _authenticate(self, connection: socket.socket) -> bool:
        """Authenticate both sides: each proves that it knows the key."""
        theirs, own = _receive_exactly(connection, NONCE), os.urandom(NONCE)
        connection.sendall(proof(self.key, b"client", theirs) + own)
        return hmac.compare_digest(
            _receive_exactly(connection, PROOF), proof(self.key, b"host", own)
        )


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def _is_private(found: os.stat_result) -> bool:
    """True if the file belongs to this user and is closed to others."""
    if sys.platform == "win32":
        return True
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
    return own and not found.st_mode & 0o077


def socket_path() -> str:
    """The path of a new socket: short, and in a new private folder."""
    import tempfile  # only the service needs it

    try:
        base = tempfile.gettempdir()
    except FileNotFoundError:  # the disk is full, but a socket still fits
        base = "/tmp"  # noqa: S108
    if len(os.fsencode(base)) > _LONGEST_BASE:
        base = "/tmp"  # noqa: S108
    return os.path.join(tempfile.mkdtemp(prefix="mcpq-", dir=base), "s")
