"""Files: written so that a crash leaves them whole, opened within their folder, owned by whom.

`opened` follows no link out of the folder that was named, whoever moves it when. A hard link is the
file itself: nothing tells where else it is.
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

OUTSIDE = "is a link out of the folder, which is not followed: name what it leads to instead"
NO_FILE = "is not a regular file"
# Nothing waits for the other end of a pipe, or for a terminal.
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
READ |= getattr(os, "O_BINARY", 0)
STEP = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
HERE = getattr(os, "O_NOFOLLOW", 0)


def write_atomically(path: Path, text: str) -> None:
    """Replace the file as a whole: readers see the old text or the new, also after a crash.

    A new file is its owner's alone; one that is replaced keeps owner, group, mode and access lists,
    so that whoever could read it still can. Raises OSError, also where it cannot keep them.
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
        sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, seconds: float = 30.0) -> Iterator[None]:
    """Keep others who lock the path from it, to read it, change it and write it back.

    Raises OSError where its folder cannot be written, TimeoutError where another process has it for
    longer than so many seconds.
    """
    from filelock import FileLock, Timeout  # a hook, which must be quick, imports this module

    real = path.resolve()
    real.parent.stat()  # the lock would make the folder
    lock = real.with_name(f".{real.name}.lock")
    try:
        with FileLock(lock, seconds, mode=0o600):
            try:
                yield
            finally:
                with suppress(OSError):  # Windows keeps open files
                    lock.unlink()
    except Timeout:
        raise TimeoutError(errno.ETIMEDOUT, "another process is changing it") from None


def sync(folder: Path) -> None:
    """Make what was created or renamed in the folder safe from a power failure."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def identity(path: Path) -> tuple[int, int] | None:
    """The identity of a file, which another that takes its place has not; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def place_in(folder: Path, file: Path) -> tuple[str, tuple[str, ...]] | None:
    """The folder without links, and the names from it to what the file is; None: outside of it."""
    root = os.path.realpath(folder)
    try:
        return root, Path(os.path.realpath(file)).relative_to(root).parts
    except ValueError:
        return None


@contextmanager
def opened(file: Path, within: Path | None) -> Iterator[BinaryIO]:
    """The file, to be read; `within` a folder, unless a link may lead anywhere.

    Raises OSError, and UnusableFile where it is elsewhere, or no regular file.
    """
    descriptor = os.open(file, READ) if within is None else _open_within(within, file)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnusableFile(NO_FILE)
        with open(descriptor, "rb", closefd=False) as opening:
            yield opening
    finally:
        os.close(descriptor)


def _open_within(folder: Path, file: Path) -> int:
    """Step by step, none of which may be a link, along the way that the links made."""
    place = place_in(folder, file)
    if place is None:
        raise UnusableFile(OUTSIDE)
    root, names = place
    if os.open not in os.supports_dir_fd:  # Windows, where it takes a privilege to make links
        return os.open(Path(root, *names), READ)
    descriptor = os.open(root, STEP)
    for name in names[:-1]:
        descriptor = _open_in(descriptor, name, STEP)
    return _open_in(descriptor, names[-1] if names else ".", READ)


def _open_in(folder: int, name: str, flags: int) -> int:
    """A descriptor of the entry of an open folder, which is closed."""
    try:
        return os.open(name, flags | HERE, dir_fd=folder)
    finally:
        os.close(folder)


def others_may_write(path: Path) -> str | None:
    """Why others than the user and root could have written this file; None where they could not.

    Where it leads, for a link, and both folders count too: who may write there can replace it.
    Nothing is looked at on Windows, nor where a file system is mounted read-only, as secrets are in
    containers. Raises OSError where there is no such file.
    """
    if sys.platform == "win32":
        return None
    real = path.resolve(strict=True)
    if os.statvfs(real).f_flag & os.ST_RDONLY:
        return None
    fault = _fault(real, "it")
    for folder in dict.fromkeys((path.absolute().parent, real.parent)):
        fault = fault or _fault(folder, "its folder")
    return fault


def _fault(path: Path, called: str) -> str | None:
    found = path.stat()
    if found.st_uid not in (0, os.geteuid()):
        return f"{called} belongs to another user: chown it to the one who runs this"
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if shared and not (path.is_dir() and found.st_mode & stat.S_ISVTX):
        return f"others may write to {called}: run chmod go-w {shlex.quote(str(path))}"
    return None
