"""The server over HTTP, with the map page: the service of its store, in the foreground."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from filelock import BaseFileLock

from mcp_server_qdrant.app.opening import Opening, open_services
from mcp_server_qdrant.app.process import HERE
from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.app.service import Command, serving_pipes
from mcp_server_qdrant.http import serving
from mcp_server_qdrant.http.monitor import Monitor
from mcp_server_qdrant.http.page.key import PARAMETER
from mcp_server_qdrant.http.page.routes import PAGE
from mcp_server_qdrant.settings.environment import Settings


def run(
    settings: Settings,
    transport: serving.HttpTransport,
    ready: Callable[[str, str | None], None],
    hold: Callable[[], BaseFileLock | None],
    command: Command | None,
    key: str | None = None,
    loop: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` gets the server's address and the page's.

    With a `key`, which is part of the page's address, requests without it are refused. `hold` locks
    the store's folder; it returns None if other processes may serve the same engine. `loop` runs
    the server's coroutine. If a service runs this for a client's command, it serves pipes already.
    Raises ConfigError if the address is open to others without authentication, or the port is in
    use.
    """
    serving.check_exposure(settings.fastmcp_host, settings.auth_mode)
    page = transport == "streamable-http"  # over SSE each client opens its own services
    monitor = Monitor(settings)
    with serving.open_listener(settings.fastmcp_host, settings.fastmcp_port) as listener:
        path = "/mcp" if page else "/sse"
        shown = f"{PAGE}?{PARAMETER}={key}" if key else PAGE
        lock = hold()
        ready(serving.address(listener, path), serving.address(listener, shown) if page else None)

        async def serve() -> None:
            opening = Opening(partial(open_services, settings))
            mcp = make_server(settings, opening, monitor=monitor, page=page)
            serving_all = serving.serve(mcp, transport, settings, monitor, listener, key)
            if HERE.get() is not None:
                await serving_all
                return
            async with serving_pipes(settings, lock, command, opening) as service:
                await serving_all
                await service.finish()

        loop(serve())
