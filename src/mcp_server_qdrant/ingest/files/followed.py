"""The folders that agents asked to follow, below roots that the person allowed."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mcp_server_qdrant.core.datatypes import SyncedFolder
from mcp_server_qdrant.core.disk import locked, write_atomically
from mcp_server_qdrant.core.errors import BackendError


class Followed:
    """The list of followed folders, in a JSON file (folder -> collection).

    Without `roots` no folder is allowed. Folders that are not below a root are ignored.
    """

    def __init__(self, file: Path, roots: Sequence[Path]) -> None:
        self._file = file
        self._roots = [os.path.realpath(root) for root in roots]

    def allows(self, folder: Path) -> bool:
        """True if the folder, with symbolic links resolved, is below one of the roots."""
        whole = Path(os.path.realpath(folder))
        return any(whole.is_relative_to(root) for root in self._roots)

    def folders(self) -> list[SyncedFolder]:
        """The allowed folders of the list."""
        known = ((Path(path), name) for path, name in self._read().items())
        return [SyncedFolder(path, name) for path, name in known if self.allows(path)]

    def keep(self, folder: Path, collection: str | None) -> None:
        """Add a folder, followed into this collection; None removes it. Raises BackendError."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with locked(self._file):
                left = {path: name for path, name in self._read().items() if path != str(folder)}
                new = {str(folder): collection} if collection else {}
                write_atomically(self._file, json.dumps(left | new))
        except OSError as error:
            raise BackendError(
                f"{self._file} cannot be written ({error.strerror}): nothing was changed. "
                "Set QDRANT_CACHE_PATH to a writable folder."
            ) from error

    def _read(self) -> dict[str, str]:
        with suppress(OSError, ValueError):
            read = json.loads(self._file.read_text("utf-8"))
            if isinstance(read, dict):
                return {path: name for path, name in read.items() if isinstance(name, str)}
        return {}
