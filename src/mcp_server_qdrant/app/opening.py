"""Opening the services: engine, models and all that is built on them."""

import asyncio
import contextlib
import gc
import importlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_server_qdrant.core.context import calling
from mcp_server_qdrant.core.lean import import_qdrant_client
from mcp_server_qdrant.settings.environment import Settings

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services, Shared


class Opening:
    """Opens the services once, in the background; a failure is tried again at the next call."""

    def __init__(
        self,
        open_services: Callable[[], Awaitable["Shared"]],
        recall_path: Path | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """`at_once`: what answers at `recall_path` does not wait for a client's first message."""
        self._open = open_services
        self._at_once = at_once
        self._recall_path = recall_path
        self._undo = contextlib.AsyncExitStack()
        self._task: asyncio.Task[Shared] | None = None
        self._users = 0

    async def __aenter__(self) -> "Opening":
        """One user more: the SDK enters the lifespan once per process, over SSE per client."""
        self._users += 1
        if self._at_once:
            self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        """One user less; the last one closes what was opened."""
        self._users -= 1
        if self._users or self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None
        with calling(None):
            await self._undo.aclose()

    def begin(self) -> "asyncio.Task[Shared]":
        """Start opening unless that is done or under way; for all, whoever calls first."""
        task = self._task
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            with calling(None):
                task = self._task = asyncio.ensure_future(self._opened())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _opened(self) -> "Shared":
        services = await self._open()
        self._undo.push_async_callback(services.close)
        if self._recall_path:
            from mcp_server_qdrant.app.recall import answering

            await self._undo.enter_async_context(answering(self._recall_path, self.services))
        return services

    async def services(self) -> "Services":
        """The open services of the caller's tenant. Raises why there are none."""
        return (await asyncio.shield(self.begin())).of_caller()


def import_services() -> None:
    """Import the services, and qdrant-client without what it needs to encode texts itself."""
    import_qdrant_client()
    importlib.import_module("mcp_server_qdrant.app.services")
    importlib.import_module("mcp_server_qdrant.qdrant.client")


async def open_lazily(settings: Settings) -> "Services":
    """The services of a command."""
    opened = await open_services(settings)
    return opened.of_caller()


async def open_services(settings: Settings) -> "Shared":
    """The services, their libraries imported in a thread: the event loop goes on meanwhile.

    All that was loaded until now is kept out of garbage collection, which would otherwise walk
    200,000 objects now and then and hold up every call for a tenth of a second.
    """
    try:
        hosts = await asyncio.to_thread(
            importlib.import_module, "mcp_server_qdrant.app.local_models"
        )
        async with contextlib.AsyncExitStack() as undo:
            host = hosts.open_host(settings)
            undo.push_async_callback(host.close)
            line = hosts.open_engine_host(settings)
            starting = [hosts.load_default(settings, host)]
            if line is not None:
                undo.push_async_callback(line.close)
                starting.append(line.open())
            # The hosts start, and load model and collections, while this process imports.
            asyncio.gather(*starting, return_exceptions=True)
            await asyncio.to_thread(import_services)
            from mcp_server_qdrant.app import models, services

            client = await hosts.open_engine(settings, settings.qdrant_timeout, line)
            undo.push_async_callback(client.close)
            opened = services.Shared(settings, client, models.open_encoders(settings, host))
            undo.pop_all()
            return opened
    finally:
        gc.freeze()
        gc.enable()
