"""A server with the transport that was asked for, and nothing imported that the other needs."""

from collections.abc import Callable
from typing import Literal

from mcp_server_qdrant.encoders.providers import check_provider
from mcp_server_qdrant.settings.environment import Settings

Transport = Literal["stdio", "sse", "streamable-http"]


def run(settings: Settings, transport: Transport, ready: Callable[[str], None]) -> None:
    """Serve until the client goes, or SIGINT or SIGTERM comes. Over HTTP `ready` gets the address.

    Raises ConfigError.
    """
    check_provider(settings.embedding_provider)
    if transport == "stdio":
        from mcp_server_qdrant.app import stdio

        stdio.run(settings)
    else:
        from mcp_server_qdrant.app import http

        http.run(settings, transport, ready)
