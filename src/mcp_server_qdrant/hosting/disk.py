"""Files that a crash leaves whole."""

import contextlib
import os
import sys
from pathlib import Path


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


def identity(path: Path) -> tuple[int, int] | None:
    """The identity of a file, which another that takes its place has not; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
