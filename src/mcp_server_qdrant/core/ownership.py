"""The check that nobody else may write a file: its author chooses addresses and callers."""

import os
import stat
import sys
from pathlib import Path


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
        return f"others may write to {called}: run chmod go-w {path}"
    return None
