"""When a folder of local mode is to be imported, and what was of it: `imported.json` beside it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from filelock import FileLock, Timeout

from mcp_server_qdrant.hosting.wire import write_atomically
from mcp_server_qdrant.qdrant.local.files import META, is_local_mode

_JOURNAL = "imported.json"
_LOCK = "imported.lock"
_POLL_SECONDS = 0.1


class ImportJournal:
    """Collection -> how far its import is."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _JOURNAL
        self._states = _read(self._path)

    def state(self, name: str) -> str | None:
        """`begun`, `done`, `refused`, or nothing."""
        return self._states.get(name)

    def write(self, name: str, state: str) -> None:
        """Durable when it returns."""
        self._states[name] = state
        write_atomically(self._path, json.dumps(self._states))


@contextlib.asynccontextmanager
async def import_due(folder: Path) -> AsyncIterator[bool]:
    """Whether something of local mode is in the folder that was not imported.

    Held by one process at a time: the others wait here, and find that it was done.
    """
    if not is_local_mode(folder) or not _outstanding(folder):
        yield False
        return
    lock = FileLock(folder / _LOCK, mode=0o600)
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout:
            await asyncio.sleep(_POLL_SECONDS)
    try:
        yield _outstanding(folder)
    finally:
        lock.release()


def _outstanding(folder: Path) -> bool:
    """Whether a collection is neither imported nor refused; what cannot be told is."""
    try:
        names = json.loads((folder / META).read_text("utf-8"))["collections"]
    except (OSError, ValueError, LookupError, TypeError):
        return True
    states = _read(folder / _JOURNAL)
    return any(states.get(name) not in ("done", "refused") for name in names)


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text("utf-8"))
        return {str(name): str(state) for name, state in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}
