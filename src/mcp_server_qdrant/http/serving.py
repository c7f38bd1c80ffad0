"""The application around /mcp, and how it is served from start to end."""

import errno
import os
import socket
import time
from types import FrameType
from typing import Any, Literal

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from starlette.types import ASGIApp
from typing_extensions import override

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.http.entry import protect
from mcp_server_qdrant.http.guard import is_loopback
from mcp_server_qdrant.http.limits import IDLE_SECONDS, SESSIONS, Limits, Load
from mcp_server_qdrant.http.page.routes import PAGE, compressed
from mcp_server_qdrant.http.requests import Identified
from mcp_server_qdrant.http.watch import Watch
from mcp_server_qdrant.settings.environment import Settings

HttpTransport = Literal["sse", "streamable-http"]

BODY = 4 * 1024 * 1024  # bytes of a request
STREAMS_SECONDS = 1  # for event streams to close
QUIET_TICKS = 2  # of a tenth of a second: an answer is written a moment after its call is done


def app(
    mcp: MCPServer[Any],
    transport: HttpTransport,
    settings: Settings,
    watch: Watch | None = None,
) -> ASGIApp:
    """The ASGI application: /mcp, or /sse with /messages/ for the older transport.

    A request passes, from the outside in: its id and log line, the guard and who calls
    (`http.entry`), the limits, the size of its body. So a caller without a token takes up no room.
    The SDK's own check of Host and Origin, which holds on loopback alone, is left to `http.guard`.
    """
    watch = watch or Watch(settings)
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    if transport == "sse":
        path = "/sse"
        served = mcp.sse_app(transport_security=unchecked)
    else:
        path = "/mcp"
        served = mcp.streamable_http_app(
            transport_security=unchecked,
            stateless_http=settings.stateless,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=SESSIONS,
        )
    bounded = RequestBodyLimitMiddleware(compressed(served), BODY)
    limited = Limits(bounded, watch.load, watch.metrics.refused)
    return Identified(protect(served, settings, path, pages=[PAGE], inner=limited))


def serve(
    mcp: MCPServer[Any],
    transport: HttpTransport,
    settings: Settings,
    watch: Watch,
    listener: socket.socket,
) -> None:
    """Serve on a socket until SIGINT or SIGTERM; calls under way get a few seconds to finish."""
    config = configured(app(mcp, transport, settings, watch), settings)
    Server(config, watch.load, settings.http_drain_seconds).run(sockets=[listener])


class Server(uvicorn.Server):
    """Keeps listening while it drains, so that health checks and refusals are heard.

    The first SIGTERM or SIGINT begins it, a second one ends the process. Calls get `seconds`, then
    they are cancelled.
    """

    def __init__(self, config: uvicorn.Config, load: Load, seconds: float) -> None:
        super().__init__(config)
        self._load = load
        self._seconds = seconds
        self._until = 0.0
        self._quiet = 0

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came."""
        if self._load.draining:
            os._exit(128 + sig)
        self._until = time.monotonic() + self._seconds
        self._load.draining = True

    @override
    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: stop or go on."""
        if self._load.draining:
            self._quiet = self._quiet + 1 if self._load.calls.count == 0 else 0
            if self._quiet >= QUIET_TICKS or time.monotonic() >= self._until:
                self.should_exit = True  # which ends the event streams, too
        return await super().on_tick(counter)


def configured(served: ASGIApp, settings: Settings) -> uvicorn.Config:
    """How uvicorn serves the application."""
    return uvicorn.Config(
        served,
        http="h11",  # bounds the heads of requests, httptools does not
        log_level=settings.log_level.lower(),
        log_config=None,  # as the root logger is set up
        access_log=False,  # its lines have queries; http/requests.py logs each request
        forwarded_allow_ips=list(settings.forwarded_allow_ips),
        timeout_graceful_shutdown=STREAMS_SECONDS,
    )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any free one. Raises ConfigError where it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family)
        # asyncio turns off Nagle's delay, 40 ms for each answer in two parts, only of what says TCP
        return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, made.detach())
    except OSError as error:
        code = error.errno or -1
        if code == errno.EADDRNOTAVAIL or code < 0:  # as those of a name are
            raise ConfigError(
                f"FASTMCP_HOST is {host}, no address of this machine: set 127.0.0.1 instead."
            ) from error
        reason = os.strerror(code).lower()
        raise ConfigError(
            f"Port {port} of {host} cannot be used ({reason}): choose another FASTMCP_PORT, or "
            "another --port for viz."
        ) from error


def address(listener: socket.socket, path: str) -> str:
    """The URL of a path there."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def check_exposure(host: str, auth_mode: str | None) -> None:
    """Raise ConfigError where others could reach the server and nobody said that they may."""
    if auth_mode is None and not is_loopback(host):
        raise ConfigError(
            f"FASTMCP_HOST is {host}, which others can reach: set AUTH_MODE=token or oauth to ask "
            "who calls, set AUTH_MODE=none to let everyone who can connect search and store, or "
            "listen on 127.0.0.1."
        )
