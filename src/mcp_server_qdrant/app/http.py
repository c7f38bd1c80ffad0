"""The server over HTTP, with the page beside /mcp."""

from collections.abc import Callable

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.http import serving
from mcp_server_qdrant.http.monitor import Monitor
from mcp_server_qdrant.http.page.key import PARAMETER
from mcp_server_qdrant.http.page.routes import PAGE
from mcp_server_qdrant.settings.environment import Settings


def run(
    settings: Settings,
    transport: serving.HttpTransport,
    ready: Callable[[str, str | None], None],
    key: str | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` gets the address, and that of the page.

    With a `key`, which is part of the page's address, nobody else is served.
    Raises ConfigError where others could reach it unasked, or where the port is taken.
    """
    serving.check_exposure(settings.fastmcp_host, settings.auth_mode)
    page = transport == "streamable-http"  # over SSE the services are opened for each client
    monitor = Monitor(settings)
    with serving.listening(settings.fastmcp_host, settings.fastmcp_port) as listener:
        path = "/mcp" if page else "/sse"
        shown = f"{PAGE}?{PARAMETER}={key}" if key else PAGE
        ready(serving.address(listener, path), serving.address(listener, shown) if page else None)
        mcp = make_server(settings, monitor=monitor, page=page)
        serving.serve(mcp, transport, settings, monitor, listener, key)
