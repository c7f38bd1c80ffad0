"""What stands beside /mcp over HTTP, and how it is served."""

import ipaddress
import logging
import socket
from typing import Any, Literal

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from mcp_server_qdrant.errors import ConfigError
from mcp_server_qdrant.http_edge import protect
from mcp_server_qdrant.http_guard import WithoutQuery
from mcp_server_qdrant.http_viz import PAGE
from mcp_server_qdrant.settings import Settings

DRAIN_SECONDS = 5

HttpTransport = Literal["sse", "streamable-http"]


def register(mcp: MCPServer[Any]) -> None:
    """Add the routes beside /mcp."""
    mcp.custom_route("/healthz", methods=["GET"])(healthz)


async def healthz(_: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})


def app(mcp: MCPServer[Any], transport: HttpTransport, settings: Settings) -> ASGIApp:
    """The ASGI application: /mcp, or /sse with /messages/ for the older transport.

    The SDK's own check of Host and Origin, which holds on loopback alone, is left to `http_guard`.
    """
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    if transport == "sse":
        return protect(mcp.sse_app(transport_security=unchecked), settings, "/sse")
    served = mcp.streamable_http_app(transport_security=unchecked)
    return protect(served, settings, "/mcp", pages=[PAGE])


def serve(mcp: MCPServer[Any], transport: HttpTransport, settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; calls under way get a few seconds to finish."""
    logging.getLogger("uvicorn.access").addFilter(WithoutQuery())
    uvicorn.run(
        app(mcp, transport, settings),
        host=settings.host,
        port=settings.port,
        log_level=settings.log_level.lower(),
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any free one. Raises ConfigError where it is taken."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise ConfigError(f"Port {port} cannot be used: {error.strerror}.") from error


def serve_on(listener: socket.socket, mcp: MCPServer[Any], settings: Settings) -> None:
    """Serve on a socket that listens already, as `serve` does."""
    logging.getLogger("uvicorn.access").addFilter(WithoutQuery())
    config = uvicorn.Config(
        app(mcp, "streamable-http", settings),
        log_level=settings.log_level.lower(),
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])


def check_exposure(host: str, auth_mode: str | None) -> None:
    """Raise ConfigError where others could reach the server and nobody said that they may."""
    if auth_mode is None and not is_loopback(host):
        raise ConfigError(
            f"FASTMCP_HOST is {host}, which others can reach: set AUTH_MODE=token or oauth to ask "
            "who calls, set AUTH_MODE=none to let everyone who can connect search and store, or "
            "listen on 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
