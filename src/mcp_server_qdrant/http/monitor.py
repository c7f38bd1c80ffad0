"""Monitoring for operators: health, metrics, and a log line per request and call."""

import asyncio
import logging
import re
import time
import uuid
from asyncio import Task
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server_qdrant.core.context import (
    ADMIN,
    CALLER,
    Caller,
    caller,
    calling,
    recording,
    within_request,
)
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.http.limits import HEALTH, SLOT, Load
from mcp_server_qdrant.http.metrics import CONTENT_TYPE, Metrics
from mcp_server_qdrant.settings.environment import Settings

HEADER = "x-request-id"
PATIENCE = 2.0  # seconds to wait for the engine; probes usually time out soon after
REQUEST_ID = "mcp_server_qdrant.request_id"  # key in the ASGI scope, for other tasks

logger = logging.getLogger(__name__)

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
NAMED_COLLECTIONS = 20  # with their own label in /metrics; the rest are `other`

Next = Callable[[Any], Awaitable[Any]]


class Monitor:
    """The state shared by limits, /readyz and /metrics; also sets each message's caller."""

    def __init__(self, settings: Settings) -> None:
        self.load = Load()
        self._authenticates = settings.auth_mode in ("token", "oauth")
        self._scopes: Mapping[str, str] = {}
        named = settings.tenant_claim or settings.tenant_field
        self._claim = named if settings.tenant_field else None
        # A reader of all tenants' metrics must not see their collections' names.
        self.metrics = Metrics(self.load, 0 if settings.tenant_field else NAMED_COLLECTIONS)

    def register(
        self, mcp: MCPServer[Any], begin: Callable[[], Task[Any]], scopes: Mapping[str, str]
    ) -> None:
        """Add /healthz, /readyz and /metrics. `scopes` maps a tool's name to the scope it needs.

        `begin` returns the task that opens the services, starting it if needed.
        """
        self._scopes = scopes

        async def readyz(_: Request) -> Response:
            parts, _services = await examine(begin(), draining=self.load.draining)
            return readiness(parts)

        async def metrics(_: Request) -> Response:
            """Metrics of all tenants, so no tenant may read them."""
            if self._is_tenant():
                return Response(
                    "/metrics needs a token with the scope admin and without a tenant.",
                    status_code=403,
                )
            parts, services = await examine(begin(), draining=self.load.draining)
            work = services.work() if services else {}
            text = self.metrics.text(parts["engine"].state, parts["encoder"].state, work)
            return Response(text, media_type=CONTENT_TYPE)

        routes = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
        for path, handler in routes.items():
            mcp.custom_route(path, methods=["GET"])(handler)

    def _is_tenant(self) -> bool:
        """True if the caller is a tenant, or lacks the scope admin."""
        who = caller()
        if self._claim is None or who is None:
            return False
        return self._claim in who.claims or ADMIN not in who.scopes

    async def observe(self, ctx: Any, call_next: Next) -> Any:
        """MCP middleware: restores the slot and the caller of the message's own request.

        The SDK handles messages outside the task of their request, and a session's messages in the
        task of its first one. Tools that the caller may not use are removed from lists.
        """
        scope = ctx.request.scope if ctx.request is not None else {}
        who: Caller | None = scope.get(CALLER)
        if self._authenticates and who is None:
            raise MCPError(INVALID_REQUEST, "This message came without a caller.")
        with (
            within_request(scope.get(REQUEST_ID)),
            scope.get(SLOT, nullcontext()),
            calling(who),
            recording(self.metrics),
        ):
            result = await call_next(ctx)
        if who and ctx.method == "tools/list" and isinstance(result, dict):
            result["tools"] = [tool for tool in result["tools"] if self._may(who, tool["name"])]
        return result

    def _may(self, who: Caller, tool: str) -> bool:
        return self._scopes.get(tool, ADMIN) in who.scopes


class Identified:
    """Sets the request id (from the client, a proxy, or new), returns it, and logs the request.

    The log has the path without its query string, which may contain search text. Health checks are
    logged at DEBUG.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request = given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex  # because it is logged
        began, status = time.perf_counter(), 0

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message.setdefault("headers", [])
                MutableHeaders(scope=message).append(HEADER, request)
            await send(message)

        with within_request(request):
            try:
                await self._app({**scope, REQUEST_ID: request}, receive, marked)
            finally:
                _log(scope, status, time.perf_counter() - began)


def _log(scope: Scope, status: int, seconds: float) -> None:
    fields = {
        "method": scope["method"],
        "path": scope["path"][:200],
        "status": status,
        "ms": round(seconds * 1000, 1),
        "client": (scope.get("client") or ("",))[0],
    }
    level = logging.DEBUG if scope["path"] in HEALTH else logging.INFO
    logger.log(level, "Request", extra={"fields": fields})


class Part(NamedTuple):
    """The state of one part of the server, and a sentence on it."""

    state: str
    message: str


async def healthz(_: Request) -> Response:
    """Liveness: the process answers."""
    return JSONResponse({"status": "ok"})


def readiness(parts: Mapping[str, Part]) -> Response:
    """200 if a call would be answered now, at least by keyword; else 503 with the reason."""
    model = parts["encoder"].state
    up = parts["server"].state == parts["engine"].state == "up"
    # Without a model keyword search works; a model that is loading counts as not ready.
    if not up or model in ("loading", "unknown"):
        status = "not ready"
    else:
        status = "ready" if model == "ready" else "degraded"
    told = {name: part._asdict() for name, part in parts.items()}
    return JSONResponse({"status": status, **told}, 503 if status == "not ready" else 200)


async def examine(
    opening: "Task[Any]", *, draining: bool, patience: float = PATIENCE
) -> tuple[dict[str, Part], Any]:
    """The parts server, engine and encoder, and the services; None until `opening` is done."""
    server, engine = Part("up", "The server takes calls."), Part("up", "The engine answers.")
    if draining:
        server = Part("draining", "The server is shutting down: it takes no more calls.")
    services: Any = None
    try:
        async with asyncio.timeout(patience):
            services = await asyncio.shield(opening)
            await services.catalog.names()
    except TimeoutError:
        engine = Part("opening", "The engine is being opened.")
        if services is not None:
            engine = Part("down", "The engine does not answer in time.")
    except QdrantMcpError as error:
        engine = Part("down", str(error))
    return {"server": server, "engine": engine, "encoder": _encoder(services)}, services


def _encoder(services: Any) -> Part:
    """The state of the default model, `unknown` until the services are open."""
    if services is None:
        return Part("unknown", "The model is loaded once the engine is open.")
    encoder = services.encoders.default
    if encoder.state == "ready":
        return Part("ready", f"The model {encoder.name} is ready.")
    return Part(encoder.state, encoder.reason or f"The model {encoder.name} is not ready.")
