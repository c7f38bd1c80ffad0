"""The store and the local models of a process, shared by all its clients."""

import asyncio
import importlib
from contextvars import Context, ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import BaseFileLock

from mcp_server_qdrant.qdrant.edge.hold import lock_folder
from mcp_server_qdrant.settings.environment import Settings

if TYPE_CHECKING:
    from mcp_server_qdrant.encoders.local.models import Models
    from mcp_server_qdrant.qdrant.edge.client import EdgeClient
    from mcp_server_qdrant.qdrant.edge.embedded import Embedded


class Process:
    """The store that these settings name, and the local models; opened at the first use.

    `lock` is the lock of the store's folder; without it the folder is locked at the opening.
    """

    def __init__(self, settings: Settings, lock: BaseFileLock | None = None) -> None:
        self._place = _place(settings)
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._opening: asyncio.Task[Embedded] | None = None
        self._models: Models | None = None

    def serves(self, settings: Settings) -> bool:
        """True if these settings name the same store or server."""
        return _place(settings) == self._place

    def holds(self, folder: Path) -> bool:
        """True if this process has the store of that folder."""
        return folder.resolve() == self._place

    @property
    def models(self) -> "Models":
        """The local models."""
        if self._models is None:
            from mcp_server_qdrant.encoders.local.models import Models

            self._models = Models()
        return self._models

    def start_opening(self, settings: Settings) -> None:
        """Start opening the store and loading the default model, while the rest is imported.

        Does nothing in the event loop of a command, which uses those of its service.
        """
        if asyncio.get_running_loop() is not self._loop:
            return
        if isinstance(self._place, Path):
            task = asyncio.create_task(self.embedded())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        if settings.embedding_provider == "fastembed":
            self._loop.run_in_executor(None, self._load, settings)

    def _load(self, settings: Settings) -> None:
        from mcp_server_qdrant.app.models import open_encoders

        self._first = open_encoders(settings, self.models).default  # kept until the services open
        self._first.start()

    async def client(self, timeout: float) -> "EdgeClient":
        """A client of the embedded store, for any event loop. Raises EngineUnavailable."""
        from mcp_server_qdrant.qdrant.edge.client import EdgeClient

        opened = asyncio.run_coroutine_threadsafe(self.embedded(), self._loop)
        return EdgeClient(await asyncio.wrap_future(opened), timeout)

    async def embedded(self) -> "Embedded":
        """The embedded store, opened once; after a failure the next call retries."""
        task = self._opening
        if task is None or (task.done() and self._open_store() is None):
            # In its own context, because it outlives the first call.
            opening = self._open()
            task = self._opening = self._loop.create_task(opening, context=Context())
        return await asyncio.shield(task)

    async def _open(self) -> "Embedded":
        assert isinstance(self._place, Path)
        if self._lock is None:
            self._lock = lock_folder(self._place)
        module = "mcp_server_qdrant.qdrant.edge.embedded"
        embedded = await asyncio.to_thread(importlib.import_module, module)
        store: Embedded = await embedded.Embedded.open(self._place)
        return store

    @property
    def busy(self) -> bool:
        """True while the store is being written or optimised."""
        opened = self._open_store()
        return opened is not None and opened.busy

    def _open_store(self) -> "Embedded | None":
        task = self._opening
        if task is None or not task.done() or task.cancelled() or task.exception():
            return None
        return task.result()

    async def close(self) -> None:
        """Finish pending work, then close the models and the store and release the lock."""
        if self._models is not None:
            await self._models.close()
        if self._opening is not None:
            await asyncio.wait([self._opening])
            if (opened := self._open_store()) is not None:
                await opened.close()
        if self._lock is not None:
            self._lock.release()


HERE: ContextVar[Process | None] = ContextVar("process", default=None)


def local_models() -> "Models":
    """The local models of this process; new ones if it is not a service."""
    from mcp_server_qdrant.encoders.local.models import Models

    process = HERE.get()
    return process.models if process else Models()


def _place(settings: Settings) -> Path | str:
    return settings.qdrant_url or settings.local_path.resolve()
