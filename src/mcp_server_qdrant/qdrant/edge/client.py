"""The embedded engine behind qdrant-client's async interface: no server, nothing to install.

It has the methods of `AsyncQdrantClient` that this product uses, with the same result types, and
the search questions of `qdrant/engine.py`. Arguments that only a server needs (`wait`, `exact`,
consistency) are ignored. Errors are those of `mcp_server_qdrant.core.errors`.
"""

from pathlib import Path
from typing import Any, Self

from filelock import FileLock
from qdrant_client import models

from mcp_server_qdrant.qdrant.edge.embedded import Embedded
from mcp_server_qdrant.qdrant.edge.hold import lock_folder_when_free
from mcp_server_qdrant.qdrant.edge.reads import Reads
from mcp_server_qdrant.qdrant.edge.writes import Writes

DEFAULT_TIMEOUT = 60.0


class EdgeClient(Reads, Writes):
    """A client of the collections in a local folder, for any event loop of the process."""

    def __init__(self, engine: Embedded, timeout: float, *, lock: FileLock | None = None) -> None:
        """`timeout`: seconds per call. A client with the folder's `lock` closes the engine."""
        super().__init__(engine, timeout)
        self._lock = lock

    @classmethod
    async def open(cls, path: Path, *, timeout: float = DEFAULT_TIMEOUT) -> Self:
        """Open the folder, which no other process may have open. Raises EngineUnavailable.

        `timeout`: seconds per call.
        """
        lock = await lock_folder_when_free(path)
        try:
            return cls(await Embedded.open(path), timeout, lock=lock)
        except BaseException:
            lock.release()
            raise

    async def close(self, **_: Any) -> None:
        """Close the engine and release the lock, if this client opened the folder."""
        lock, self._lock = self._lock, None
        if lock is not None:
            try:
                await self._engine.close()
            finally:
                lock.release()

    async def get_aliases(self, **_: Any) -> models.CollectionsAliasesResponse:
        """None: collections have one name here."""
        return models.CollectionsAliasesResponse(aliases=[])
