"""What stands beside /mcp over HTTP, and how it is served."""

import ipaddress
import socket
from typing import Any, Literal

import uvicorn
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcp_server_qdrant.errors import ConfigError

DRAIN_SECONDS = 5

HttpTransport = Literal["sse", "streamable-http"]


def register(mcp: MCPServer[Any]) -> None:
    """Add the routes beside /mcp."""
    mcp.custom_route("/healthz", methods=["GET"])(healthz)


async def healthz(_: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})


def app(mcp: MCPServer[Any], transport: HttpTransport, host: str) -> Starlette:
    """The ASGI application: /mcp, or /sse with /messages/ for the older transport.

    On loopback the SDK checks Host and Origin against DNS rebinding.
    """
    if transport == "sse":
        return mcp.sse_app(host=host)
    return mcp.streamable_http_app(host=host)


def serve(
    mcp: MCPServer[Any], transport: HttpTransport, host: str, port: int, log_level: str
) -> None:
    """Serve until SIGINT or SIGTERM; calls under way get a few seconds to finish."""
    uvicorn.run(
        app(mcp, transport, host),
        host=host,
        port=port,
        log_level=log_level.lower(),
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any free one. Raises ConfigError where it is taken."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise ConfigError(f"Port {port} cannot be used: {error.strerror}.") from error


def serve_on(listener: socket.socket, mcp: MCPServer[Any], log_level: str) -> None:
    """Serve on a socket that listens already, as `serve` does."""
    config = uvicorn.Config(
        app(mcp, "streamable-http", listener.getsockname()[0]),
        log_level=log_level.lower(),
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])


def check_exposure(host: str, auth_mode: str | None) -> None:
    """Raise ConfigError where others could reach the server and nobody said that they may."""
    if auth_mode is None and not is_loopback(host):
        raise ConfigError(
            f"FASTMCP_HOST is {host}, which others can reach: set AUTH_MODE=none to let everyone "
            "who can connect search and store, or listen on 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
