"""Limits on the work at once, of all callers and of each. Pure ASGI.

A refusal is answered before anything is done, and before anything is read but a small message of
a session. So it costs next to nothing, and callers within the limit keep their latency. The
frameworks' own limits know no callers: uvicorn's counts connections, idle ones too, the SDK's only
sessions, and each answers 503 where a client should slow down.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext

import anyio
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server_qdrant.http.load import (
    PLACE,
    SESSION,
    Load,
    Place,
    Refused,
    holder,
    is_last,
    tapped,
)

HEALTH = ("/healthz", "/readyz", "/metrics")
MCP = "/mcp"
STREAM_PATHS = (MCP, "/sse")
VERSION = "mcp-protocol-version"
LISTEN = (b"mcp-method", b"subscriptions/listen")
SESSIONLESS = "2026"  # the first year of the protocol without sessions
BODY = 4 * 1024 * 1024  # bytes
BODY_SECONDS = 15.0
SMALL = 65_536  # bytes
RETRY_SECONDS = 1
SERVER_ERROR = -32000  # JSON-RPC's
EMPTY: Message = {"type": "http.request", "body": b"", "more_body": False}

# Why a request is refused.
SENTENCES = {
    "draining": "The server is shutting down; try again, another one may answer.",
    "busy": "Others keep the server busy with all the requests it takes; try again shortly.",
    "own_calls": "You have as many requests under way as one caller may; wait for one to end.",
    "streams": "Others keep open as many event streams as the server may have; try again shortly.",
    "own_streams": "You keep open as many event streams as one caller may; close some.",
    "sessions": "Others keep open as many sessions as the server may have; try again later.",
    "own_sessions": "You keep open as many sessions as one caller may; end some with DELETE, or "
    "wait until unused ones have ended.",
    "too_large": "The request is larger than the server takes; send less at once.",
    "too_slow": "The request did not arrive in time.",
}
STATUSES = {"draining": 503, "too_large": 413, "too_slow": 408}  # else 429


class Limits:
    """429 beyond so much at once, of all or of one caller, 503 while the server drains.

    A body is read whole before the application sees it, in the place of its call. Answers to what a
    call has asked its client, and notifications, always pass. Probes are never refused, nor is a
    client that ends its session.
    """

    def __init__(
        self,
        app: ASGIApp,
        load: Load,
        refused: Callable[[str], None] = lambda _: None,
        *,
        size: int = BODY,
        seconds: float = BODY_SECONDS,
    ) -> None:
        """A body may have `size` bytes and take `seconds`."""
        self._app = app
        self._load = load
        self._size = size
        self._seconds = seconds
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        who = holder(scope)
        if scope["path"] == MCP:
            send = tapped(send, self._load.sessions.following(scope, who))
        try:
            if _is_stream(scope):
                self._load.check(self._load.streams, who)
                await self._load.stream(self._app, scope, receive, send)
            else:
                place, receive = await self._admitted(scope, receive, who)
                with ExitStack() as taken:
                    taken.enter_context(place)
                    if scope["method"] not in ("GET", "HEAD"):
                        receive = _replay(await self._body(scope, receive), receive)

                    def see(message: Message) -> None:
                        if is_last(message):  # now the client may go on
                            taken.close()

                    await self._app({**scope, PLACE: place}, receive, tapped(send, see))
        except Refused as refused:
            self._refused(refused.reason)
            await refusal(refused.reason)(scope, receive, send)

    async def _admitted(
        self, scope: Scope, receive: Receive, who: str
    ) -> tuple[AbstractContextManager[None], Receive]:
        """The place of a request, and its body as far as it was read. Raises Refused."""
        if scope["method"] in ("DELETE", "OPTIONS"):
            return nullcontext(), _replay(EMPTY, receive)
        if _may_answer(scope):
            body = await self._body(scope, receive)
            receive = _replay(body, receive)
            if not _asks(body.get("body", b"")):
                return nullcontext(), receive
        self._check(scope, who)
        return Place(self._load.calls, who), receive

    async def _body(self, scope: Scope, receive: Receive) -> Message:
        """The whole body as one message, or the client's disconnect. Raises Refused."""
        if _declared(scope) > self._size:
            raise Refused("too_large")
        with anyio.move_on_after(self._seconds):
            return await self._whole(receive)
        raise Refused("too_slow")

    async def _whole(self, receive: Receive) -> Message:
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            if len(body) > self._size:
                raise Refused("too_large")
            more = message.get("more_body", False)
        return {**EMPTY, "body": bytes(body)}

    def _check(self, scope: Scope, who: str) -> None:
        self._load.check(self._load.calls, who)
        if _opens_session(scope):
            self._load.sessions.check(who)


def _is_stream(scope: Scope) -> bool:
    """True where the answer is a stream that stays open, and no call waits for its end."""
    if scope["method"] == "GET":
        return scope["path"] in STREAM_PATHS
    return LISTEN in scope["headers"] and not _has_session(scope)


def _opens_session(scope: Scope) -> bool:
    """True where the request can only open a new session, where this server keeps sessions."""
    fresh = not Headers(scope=scope).get(SESSION)
    return fresh and scope["method"] == "POST" and scope["path"] == MCP and _has_session(scope)


def _has_session(scope: Scope) -> bool:
    """True of a protocol with sessions."""
    return Headers(scope=scope).get(VERSION, "") < SESSIONLESS


def _replay(body: Message, receive: Receive) -> Receive:
    """`receive`, with the body that was read already first."""
    unread = [body]

    async def replayed() -> Message:
        return unread.pop() if unread else await receive()

    return replayed


def _may_answer(scope: Scope) -> bool:
    """True where it can be a client's small message within its session that asks nothing.

    It answers what a call under way has asked, or takes a call back: refused, no call would end.
    """
    within = Headers(scope=scope).get(SESSION) or b"session_id=" in scope["query_string"]
    return bool(within) and scope["method"] == "POST" and 0 < _declared(scope) <= SMALL


def _asks(body: bytes) -> bool:
    """True unless it is a notification or an answer."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return True
    return not isinstance(message, dict) or {"id", "method"} <= message.keys()


def _declared(scope: Scope) -> int:
    """The Content-Length, 0 where it is missing or malformed."""
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0


def refusal(reason: str) -> JSONResponse:
    """The status of the reason and one sentence, in the shape MCP clients know."""
    status = STATUSES.get(reason, 429)
    error = {"code": SERVER_ERROR, "message": SENTENCES[reason]}
    headers = {"Retry-After": str(RETRY_SECONDS)} if status in (429, 503) else None
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
