"""Files: atomic writes, opening without following links out of a folder, and ownership checks.

`opened` never follows a link out of the given folder, even in a race. Hard links cannot be told
from other files.
"""

import errno
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO

from mcp_server_qdrant.core.errors import UnusableFile

OUTSIDE = "is a link out of the folder, which is not followed: name its target instead"
NO_FILE = "is not a regular file"
# Never block on a pipe or a terminal.
READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
READ_FLAGS |= getattr(os, "O_BINARY", 0)
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def write_atomically(path: Path, text: str) -> None:
    """Replace the file atomically: readers see the old or the new text, even after a crash.

    A new file is private; a replaced one keeps its owner, group, mode and ACLs. Raises OSError,
    also if it cannot keep these.
    """
    handle, name = mkstemp(prefix=f"{path.name}.", suffix=".draft", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            before, now = path.stat(), draft.stat()
            if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
                shutil.chown(draft, before.st_uid, before.st_gid)
            shutil.copystat(path, draft)
            os.utime(draft)
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, seconds: float = 30.0) -> Iterator[None]:
    """Hold an advisory lock on the path, for a read-modify-write.

    Raises OSError if its folder is not writable, TimeoutError if another process holds the lock for
    longer than `seconds`.
    """
    from filelock import FileLock, Timeout  # late: hooks must start fast

    real = path.resolve()
    real.parent.stat()  # fails if the folder is missing; the lock would create it
    lock = real.with_name(f".{real.name}.lock")
    try:
        with FileLock(lock, seconds, mode=0o600):
            try:
                yield
            finally:
                with suppress(OSError):  # Windows cannot delete an open file
                    lock.unlink()
    except Timeout:
        raise TimeoutError(errno.ETIMEDOUT, "another process is changing it") from None


def sync_folder(folder: Path) -> None:
    """Make creations and renames in the folder durable."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def identity(path: Path) -> tuple[int, int] | None:
    """(device, inode); changes when another file takes this path. None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def place_in(folder: Path, file: Path) -> tuple[str, tuple[str, ...]] | None:
    """The resolved folder and the path components of the resolved file; None if it is outside."""
    root = os.path.realpath(folder)
    try:
        return root, Path(os.path.realpath(file)).relative_to(root).parts
    except ValueError:
        return None


@contextmanager
def open_file(file: Path, within: Path | None) -> Iterator[BinaryIO]:
    """Open a file for reading; `within`: it must resolve to a file in this folder.

    Raises OSError, or UnusableFile if it is outside or not a regular file.
    """
    descriptor = os.open(file, READ_FLAGS) if within is None else _open_within(within, file)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnusableFile(NO_FILE)
        with open(descriptor, "rb", closefd=False) as opening:
            yield opening
    finally:
        os.close(descriptor)


def _open_within(folder: Path, file: Path) -> int:
    """Open each component of the resolved path in turn, refusing links that appear in a race."""
    place = place_in(folder, file)
    if place is None:
        raise UnusableFile(OUTSIDE)
    root, names = place
    if os.open not in os.supports_dir_fd:  # Windows, where creating links needs a privilege
        return os.open(Path(root, *names), READ_FLAGS)
    descriptor = os.open(root, FOLDER_FLAGS)
    for name in names[:-1]:
        descriptor = _open_in(descriptor, name, FOLDER_FLAGS)
    return _open_in(descriptor, names[-1] if names else ".", READ_FLAGS)


def _open_in(folder: int, name: str, flags: int) -> int:
    """Open an entry of a folder descriptor, and close that descriptor."""
    try:
        return os.open(name, flags | NO_LINKS, dir_fd=folder)
    finally:
        os.close(folder)


def others_may_write(path: Path) -> str | None:
    """Why users other than this one and root could have written this file; None if they cannot.

    Checks the link's target and both folders too: whoever can write there can replace the file.
    Windows and read-only file systems (secrets in containers) are not checked. Raises OSError if
    the file is missing.
    """
    if sys.platform == "win32":
        return None
    real = path.resolve(strict=True)
    if os.statvfs(real).f_flag & os.ST_RDONLY:
        return None
    fault = _ownership_fault(real, "it")
    for folder in dict.fromkeys((path.absolute().parent, real.parent)):
        fault = fault or _ownership_fault(folder, "its folder")
    return fault


def _ownership_fault(path: Path, called: str) -> str | None:
    found = path.stat()
    if found.st_uid not in (0, os.geteuid()):
        return f"{called} belongs to another user: change its owner with chown"
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if shared and not (path.is_dir() and found.st_mode & stat.S_ISVTX):
        return f"others can write to {called}: run chmod go-w {shlex.quote(str(path))}"
    return None
