"""Opens the services: the engine, the models and everything built on them."""

import asyncio
import contextlib
import gc
import importlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from mcp_server_qdrant.app.process import HERE
from mcp_server_qdrant.core.context import calling, in_folder, serving_connection
from mcp_server_qdrant.core.lean import import_qdrant_client
from mcp_server_qdrant.settings.environment import Settings

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services, Shared


class Opening:
    """Opens the services once, in the background; after a failure the next call retries.

    They are closed `linger` seconds after their last user has left.
    """

    def __init__(
        self, open_services: Callable[[], Awaitable["Shared"]], linger: float = 0.0
    ) -> None:
        self._open = open_services
        self._linger = linger
        self._task: asyncio.Task[Shared] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self.users = 0

    async def __aenter__(self) -> "Opening":
        """Add a user: the SDK enters the lifespan once per process, or once per client."""
        self.users += 1
        if self._leaving is not None:
            self._leaving.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Remove a user."""
        self.users -= 1
        if self.users:
            return
        if not self._linger:
            await self.close()
            return
        with self._detached():
            self._leaving = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        await asyncio.sleep(self._linger)
        await self.close()

    async def close(self) -> None:
        """Close the services; the next call opens them again."""
        task, self._task = self._task, None
        if task is None:
            return
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled() and not task.exception():
            with self._detached():
                await task.result().close()

    def begin(self) -> "asyncio.Task[Shared]":
        """Start opening, unless that is done or under way, for all callers."""
        task = self._task
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            with self._detached():
                task = self._task = asyncio.ensure_future(self._open())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    @contextlib.contextmanager
    def _detached(self) -> Iterator[None]:
        """Run the body without a caller or client: its work outlives their calls."""
        with calling(None), serving_connection(self), in_folder(None):
            yield

    async def services(self) -> "Services":
        """The services of the caller's tenant. Raises the error that prevented their opening."""
        return (await asyncio.shield(self.begin())).services_of_caller()


def import_services() -> None:
    """Import the services, and qdrant-client without its own text encoders."""
    import_qdrant_client()
    importlib.import_module("mcp_server_qdrant.app.services")
    importlib.import_module("mcp_server_qdrant.qdrant.client")


async def open_lazily(settings: Settings, *, tending: bool = True) -> "Services":
    """Open the services for a command; `tending`: with background work."""
    opened = await open_services(settings, tending=tending)
    return opened.services_of_caller()


async def open_services(settings: Settings, *, tending: bool = True) -> "Shared":
    """Open the services; their libraries are imported in a thread, off the event loop.

    Objects loaded until now are frozen: otherwise each full garbage collection would walk 200,000
    objects and stall all calls for 100 ms.
    """
    process = HERE.get()
    try:
        if process is not None:
            process.start_opening(settings)
        await asyncio.to_thread(import_services)
        from mcp_server_qdrant.app.services import open_shared

        return await open_shared(settings, tending=tending)
    finally:
        gc.freeze()
        gc.enable()
