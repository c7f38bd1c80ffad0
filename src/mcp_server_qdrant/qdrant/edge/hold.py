"""The lock of a store's folder, held by the one process that may open it. Imports no engine."""

import asyncio
import errno
import os
import sys
from pathlib import Path
from time import monotonic

from filelock import FileLock, Timeout

from mcp_server_qdrant.core.errors import EngineUnavailable

LOCK = "store.lock"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_IN_USE = "The collections are in use by another process: end it, or use one server for both."
_TURN_SECONDS = 3.0  # for a process that is exiting
_PAUSE = 0.02


class InUse(EngineUnavailable):
    """Another process holds the lock."""


def lock_folder(root: Path) -> FileLock:
    """Create the folder if it is missing, and lock it.

    Raises InUse, or EngineUnavailable if this user may not write to it.
    """
    fault, lock = "", FileLock(root / LOCK, mode=0o600, thread_local=False)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sys.platform != "win32" and root.stat().st_uid != os.getuid():
            fault = "belongs to another user: choose one of your own"
        elif not os.access(root, os.W_OK | os.X_OK):
            fault = "cannot be written to: fix its permissions, or choose another"
        else:
            lock.acquire(blocking=False)
    except Timeout:
        raise InUse(_IN_USE) from None
    except OSError as error:
        raise start_error(error) from None
    if fault:
        raise EngineUnavailable(f"The folder of QDRANT_LOCAL_PATH {fault}.")
    return lock


async def lock_folder_when_free(root: Path) -> FileLock:
    """Like `hold`, but wait for a process that is exiting."""
    until = monotonic() + _TURN_SECONDS
    while True:
        try:
            return lock_folder(root)
        except InUse:
            if monotonic() > until:
                raise
        await asyncio.sleep(_PAUSE)


def start_error(error: OSError) -> EngineUnavailable:
    """The error for a folder that cannot be used."""
    reason = error.strerror or type(error).__name__
    if error.errno in _NO_ROOM:
        reason = "the disk is full"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        reason += " in its folder. Set QDRANT_LOCAL_PATH to a folder that you may write to"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        reason += ". Allow this process more of them, with ulimit -n"
    return EngineUnavailable(f"The embedded engine could not be started: {reason}.")
