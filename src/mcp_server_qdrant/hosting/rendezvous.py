"""Where a host listens: a file that tells this user's processes its address and its key."""

import contextlib
import json
import os
import stat
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from mcp_server_qdrant.core.disk import write_atomically

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LONGEST_SOCKET_PATH = 100  # bytes; the kernel's limit is 104 (macOS) or 108 (Linux)


class Rendezvous(NamedTuple):
    """A path, or on Windows `host:port`, and the key that opens it."""

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


def _private(found: os.stat_result) -> bool:
    """True where only this user can have written or read the file."""
    if sys.platform == "win32":
        return True
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
    return own and not found.st_mode & 0o077


def socket_path(rendezvous: Path) -> Path:
    """The path of the socket: short, on this machine, and the same for every host of the place."""
    name = f"{sha256(os.fsencode(rendezvous.resolve())).hexdigest()[:16]}.sock"
    try:
        base = tempfile.gettempdir()
    except FileNotFoundError:  # a full disk, where a socket still has room
        base = "/tmp"  # noqa: S108
    if len(os.fsencode(base)) + len(f"/mcpq-{os.getuid()}-12345678/{name}") > _LONGEST_SOCKET_PATH:
        base = "/tmp"  # noqa: S108
    return _private_folder(Path(base)) / name


def _private_folder(base: Path) -> Path:
    """A folder only this user can enter, even if someone else took the usual name."""
    path = base / f"mcpq-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        path.chmod(0o700)
        return path
    return Path(tempfile.mkdtemp(prefix=f"{path.name}-", dir=base))
