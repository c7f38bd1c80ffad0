"""Every request has an id, and a line in the log. Pure ASGI."""

import logging
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server_qdrant.core.telemetry import sane_id, within_request
from mcp_server_qdrant.http.limits import HEALTH

HEADER = "x-request-id"
REQUEST_ID = "mcp_server_qdrant.request_id"  # key of the ASGI scope, for work in other tasks

logger = logging.getLogger(__name__)


class Identified:
    """Takes the id that a client or a proxy gave, or makes one; returns it; logs the request.

    The line has the path without its query, which may hold what is looked for. Health checks are
    logged at DEBUG.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = sane_id(Headers(scope=scope).get(HEADER)) or uuid.uuid4().hex
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
