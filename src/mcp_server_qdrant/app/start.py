"""A server with the transport that was asked for, and nothing imported that the other needs."""

import contextlib
import importlib
from collections.abc import Callable
from typing import Any, Literal

from mcp_server_qdrant.core.lean import without
from mcp_server_qdrant.encoders.providers import check_provider
from mcp_server_qdrant.settings.environment import Settings

Transport = Literal["stdio", "sse", "streamable-http"]


def import_server(transport: Transport) -> Any:
    """`mcp_server_qdrant.app.server`, for the first time."""
    with without("uvicorn") if transport == "stdio" else contextlib.nullcontext():
        return importlib.import_module("mcp_server_qdrant.app.server")


def run(settings: Settings, transport: Transport, ready: Callable[[str], None]) -> None:
    """Serve until the client goes, or SIGINT or SIGTERM comes. Over HTTP `ready` is told where.

    Raises ConfigError.
    """
    check_provider(settings.chosen_provider)
    import_server(transport)
    if transport == "stdio":
        from mcp_server_qdrant.app import stdio

        stdio.run(settings)
    else:
        from mcp_server_qdrant.app import http

        http.run(settings, transport, ready)
