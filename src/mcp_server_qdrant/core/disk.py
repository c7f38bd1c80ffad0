"""Files that a crash leaves whole."""

import os
import shutil
import sys
from pathlib import Path
from tempfile import mkstemp


def write_atomically(path: Path, text: str) -> None:
    """Replace the file as a whole: readers see the old text or the new, also after a crash.

    A new file is its owner's alone; one that is replaced keeps its mode.
    """
    handle, name = mkstemp(prefix=f"{path.name}.", suffix=".draft", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
        sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


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
