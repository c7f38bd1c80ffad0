"""Files opened so that no link leads out of the folder that was named, whoever moves it when.

A hard link is the file itself: nothing tells where else it is.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mcp_server_qdrant.core.errors import UnusableFile

OUTSIDE = "is a link out of the folder, which is not followed: name what it leads to instead"
NO_FILE = "is not a regular file"
# Nothing waits for the other end of a pipe, or for a terminal.
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
READ |= getattr(os, "O_BINARY", 0)
STEP = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
HERE = getattr(os, "O_NOFOLLOW", 0)


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
