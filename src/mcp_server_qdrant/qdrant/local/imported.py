"""The import of a folder of local mode: when it is due, and its journal `imported.json`."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from filelock import AsyncFileLock

from mcp_server_qdrant.core.disk import write_atomically
from mcp_server_qdrant.qdrant.local.files import META, is_local_mode

_JOURNAL = "imported.json"
_LOCK = "imported.lock"
_POLL_SECONDS = 0.1


class ImportJournal:
    """The state of each collection's import."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _JOURNAL
        self._states = _read(self._path)

    def state(self, name: str) -> str | None:
        """`begun`, `done`, `refused` or None."""
        return self._states.get(name)

    def write(self, name: str, state: str) -> None:
        """Durable when it returns."""
        self._states[name] = state
        write_atomically(self._path, json.dumps(self._states))


@contextlib.asynccontextmanager
async def import_due(folder: Path) -> AsyncIterator[bool]:
    """Yield True where the folder holds collections of local mode that were not imported.

    One process at a time is inside: the others wait here, and find the import done.
    """
    if not is_local_mode(folder) or not _outstanding(folder):
        yield False
        return
    async with AsyncFileLock(folder / _LOCK, mode=0o600, poll_interval=_POLL_SECONDS):
        yield _outstanding(folder)


def _outstanding(folder: Path) -> bool:
    """True where a collection is neither imported nor refused, or nobody can tell."""
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
