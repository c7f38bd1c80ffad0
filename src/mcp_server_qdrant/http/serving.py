"""Builds the ASGI application around /mcp, and serves it until shutdown."""

import asyncio
import os
import socket
import time
from types import FrameType
from typing import Any, Literal
from urllib.parse import urlsplit

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp
from typing_extensions import override

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.http.auth.bearer import Authenticated, Verifier, resource_routes
from mcp_server_qdrant.http.guard import Guard, is_loopback
from mcp_server_qdrant.http.limits import IDLE_SECONDS, SESSIONS, Load
from mcp_server_qdrant.http.monitor import Identified, Monitor
from mcp_server_qdrant.http.page.key import Keyed
from mcp_server_qdrant.http.page.routes import PAGE
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.values import reveal

HttpTransport = Literal["sse", "streamable-http"]

BODY = 4 * 1024 * 1024  # bytes of a request body
PROBES = ("/healthz", "/readyz")
DRAIN_SECONDS = 10.0  # for calls to finish after SIGTERM
STREAMS_SECONDS = 1  # for event streams to close
QUIET_TICKS = 2  # of 0.1 s each: a response is written a moment after its call is done


def build_app(
    mcp: MCPServer[Any],
    transport: HttpTransport,
    settings: Settings,
    monitor: Monitor | None = None,
    key: str | None = None,
) -> ASGIApp:
    """The ASGI application: /mcp, or /sse with /messages/ for the older transport.

    With a `key`, all requests except probes need it (`http.page.key`).

    A request passes these layers: request id and log, guard, authentication, limits, body size. So
    a caller without a token uses up no slots. `http.guard` replaces the SDK's own check of Host and
    Origin, which only allows loopback.
    """
    monitor = monitor or Monitor(settings)
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    if transport == "sse":
        path = "/sse"
        served = mcp.sse_app(transport_security=unchecked)
    else:
        path = "/mcp"
        served = mcp.streamable_http_app(
            transport_security=unchecked,
            stateless_http=settings.fastmcp_stateless_http,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=SESSIONS,
        )
    zipped = GZipMiddleware(served, minimum_size=1_000, compresslevel=6)  # except event streams
    bounded = RequestBodyLimitMiddleware(zipped, BODY)
    limited = monitor.load.wrap(bounded, monitor.metrics.count_refusal)
    inner = Keyed(limited, key) if key else limited
    return Identified(_protect(served, inner, settings, path))


def _protect(app: Starlette, inner: ASGIApp, settings: Settings, path: str) -> ASGIApp:
    """Wrap the application in the guard and, with AUTH_MODE token or oauth, in authentication.

    `inner` is `app` with the layers after authentication, `path` that of the MCP endpoint.
    Raises ConfigError if the token file cannot be used.
    """
    names = [*settings.fastmcp_allowed_hosts, settings.fastmcp_host]
    routes, challenge = list[Route](), None
    if settings.auth_mode == "oauth" and settings.auth_issuer:
        url = _resource_url(settings, path)
        names.append(urlsplit(url).hostname or "")
        routes, challenge = resource_routes(url, settings.auth_issuer)
        app.router.routes.extend(routes)
    verifier = _verifier(settings)
    return Guard(
        app,
        Authenticated(inner, verifier, challenge, [PAGE]) if verifier else inner,
        hosts=names,
        origins=settings.fastmcp_allowed_origins,
        open_paths=[*PROBES, *(route.path for route in routes)],
    )


def _verifier(settings: Settings) -> Verifier | None:
    """The verifier for AUTH_MODE; its libraries are imported only here."""
    if settings.auth_mode == "token":
        from mcp_server_qdrant.http.auth.tokens import NamedTokens

        return NamedTokens(settings.auth_tokens_file, reveal(settings.auth_token))
    if settings.auth_mode == "oauth" and settings.auth_issuer:
        from mcp_server_qdrant.http.auth.oauth import AccessTokens, Keys

        return AccessTokens(
            Keys(settings.auth_issuer, settings.auth_jwks_url),
            issuer=settings.auth_issuer,
            audience=settings.auth_audience,
        )
    return None


def _resource_url(settings: Settings, path: str) -> str:
    """The URL of this server for the issuer's clients."""
    urls = (url for url in settings.auth_audience if url.startswith(("https://", "http://")))
    return next(urls, _url(settings.fastmcp_host, settings.fastmcp_port, path))


async def serve(
    mcp: MCPServer[Any],
    transport: HttpTransport,
    settings: Settings,
    monitor: Monitor,
    listener: socket.socket,
    key: str | None = None,
) -> None:
    """Serve on a socket until SIGINT or SIGTERM; pending calls get a few seconds to finish."""
    config = uvicorn_config(build_app(mcp, transport, settings, monitor, key), settings)
    server = Server(config, monitor.load, DRAIN_SECONDS)
    ending = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:  # a client of the service interrupted its command
        server.should_exit = True
        await ending
        raise


class Server(uvicorn.Server):
    """Keeps listening while it drains, to answer health checks and refuse new calls.

    The first SIGTERM or SIGINT starts draining, a second one exits. Calls get `seconds`, then they
    are cancelled.
    """

    def __init__(self, config: uvicorn.Config, load: Load, seconds: float) -> None:
        super().__init__(config)
        self._load = load
        self._seconds = seconds
        self._until = 0.0
        self._quiet = 0

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self._load.draining:
            os._exit(128 + sig)
        self._until = time.monotonic() + self._seconds
        self._load.draining = True

    @override
    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; True to stop."""
        if self._load.draining:
            self._quiet = self._quiet + 1 if self._load.calls.count == 0 else 0
            if self._quiet >= QUIET_TICKS or time.monotonic() >= self._until:
                self.should_exit = True  # also ends the event streams
        return await super().on_tick(counter)


def uvicorn_config(served: ASGIApp, settings: Settings) -> uvicorn.Config:
    """The uvicorn configuration for the application; it reads FORWARDED_ALLOW_IPS itself."""
    return uvicorn.Config(
        served,
        http="h11",  # bounds request headers; httptools does not
        log_level=settings.fastmcp_log_level.lower(),
        log_config=None,  # use the root logger's setup
        access_log=False,  # it would log query strings; http/monitor.py logs requests
        timeout_graceful_shutdown=STREAMS_SECONDS,
    )


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0: any free one. Raises ConfigError if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family)
        # asyncio sets TCP_NODELAY (saves 40 ms per two-part response) only if the protocol is TCP
        return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, made.detach())
    except OSError as error:
        unknown_name = isinstance(error, socket.gaierror)
        reason = str(error.strerror if unknown_name else os.strerror(error.errno or 0)).lower()
        raise ConfigError(
            f"Port {port} of {host} cannot be used ({reason}): choose another FASTMCP_PORT (viz: "
            "--port), or another FASTMCP_HOST."
        ) from error


def address(listener: socket.socket, path: str) -> str:
    """The URL of a path on the listener."""
    host, port = listener.getsockname()[:2]
    return _url(host, port, path)


def _url(host: str, port: int, path: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def check_exposure(host: str, auth_mode: str | None) -> None:
    """Raise ConfigError if others can reach the server and AUTH_MODE is not set."""
    if auth_mode is None and not is_loopback(host):
        raise ConfigError(
            f"FASTMCP_HOST is {host}, which others can reach: set AUTH_MODE=token or oauth to ask "
            "who calls, set AUTH_MODE=none to let everyone who can connect search and store, or "
            "listen on 127.0.0.1."
        )
