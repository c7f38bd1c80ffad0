"""The server over HTTP, with the page beside /mcp, and the page by itself."""

import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.subscriptions import SubscriptionBus

from mcp_server_qdrant import __version__
from mcp_server_qdrant.app.server import make_server, options_of
from mcp_server_qdrant.core.find import Preferences, Tuning
from mcp_server_qdrant.http import serving as http
from mcp_server_qdrant.http.monitor import Monitor
from mcp_server_qdrant.http.page import routes as http_viz
from mcp_server_qdrant.http.page.desk import Desk
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.tools.toolset import make_tools

if TYPE_CHECKING:
    from mcp_server_qdrant.app.server import Extend
    from mcp_server_qdrant.app.services import Services

LOOPBACK = "127.0.0.1"


def run(settings: Settings, transport: http.HttpTransport, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. `ready` gets the address.

    Raises ConfigError where others could reach it unasked, or where the port is taken.
    """
    http.check_exposure(settings.host, settings.auth_mode)
    with http.listening(settings.host, settings.port) as listener:
        if transport == "sse":
            ready(http.address(listener, "/sse"))
        else:
            page = http.address(listener, http_viz.PAGE)
            ready(f"{http.address(listener, '/mcp')}, the page at {page}")
        _serve(settings, transport, listener)


def _serve(settings: Settings, transport: http.HttpTransport, listener: socket.socket) -> None:
    monitor = Monitor(settings)
    # Over SSE the services are opened again for each client.
    page = page_of(settings) if transport == "streamable-http" else None
    asking = settings.auth_mode in ("token", "oauth")
    mcp = make_server(settings, asking=asking, monitor=monitor, extend=page)
    http.serve(mcp, transport, settings, monitor, listener)


def run_page(settings: Settings, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page on loopback, on any free port where it is 0, until SIGINT or SIGTERM.

    `ready` gets its address. Raises ConfigError where the port is taken. Nothing is written.
    """
    alone = settings.model_copy(update={"host": LOOPBACK, "qdrant_read_only": True})
    with http.listening(LOOPBACK, port) as listener:
        ready(http.address(listener, http_viz.PAGE))
        _serve(alone, "streamable-http", listener)


def page_of(settings: Settings) -> "Extend":
    """A function that adds /viz to a server."""
    return partial(_add_page, settings)


def _add_page(
    settings: Settings,
    mcp: MCPServer[Any],
    services: Callable[[], Awaitable["Services"]],
    bus: SubscriptionBus,
) -> None:
    """Add /viz. It asks the tools, the filter by tags beside the operator's own."""
    options = options_of(settings)
    preferred = Preferences.of(settings).model_dump()
    defaults = {
        **Tuning(**preferred).model_dump(),
        "version": __version__,
        "limit": settings.qdrant_search_limit,
        "priority_order": settings.priority_order,
        "alpha": settings.hybrid_alpha,
        "filters": [field.model_dump() for field in options.fields],
    }
    options = replace(options, arbitrary_filter=True)
    http_viz.register(mcp, Desk(partial(make_tools, options=options), services, defaults, bus))
