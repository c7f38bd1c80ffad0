"""Limits on the work at once, of all callers and of each. Pure ASGI.

A refusal is answered before anything is done, and before anything is read but a small message of
a session. So it costs next to nothing, and callers within the limit keep their latency. The
frameworks' own limits know no callers: uvicorn's counts connections, idle ones too, the SDK's only
sessions, and each answers 503 where a client should slow down.
"""

import json
import time
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
PATIENCE = 1.0  # seconds after which an unfinished body gives way to another
SMALL = 65_536  # bytes
RATE = 1_000_000  # bytes a second of one caller: to understand them takes a tenth of that second
BURST = RATE // 4  # that are taken at once
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
    "own_bytes": f"You send more than the server reads for one caller, {RATE:,} bytes a second; "
    "wait for a request to end.",
    "too_slow": "The request did not arrive in time.",
}
STATUSES = {"draining": 503, "too_large": 413, "too_slow": 408}  # else 429


class Limits:
    """429 beyond so much at once, of all or of one caller, 503 while the server drains.

    A body is read whole first, so that one that trickles holds no place of a call. Answers to what
    a call has asked its client, and notifications, always pass. Probes are never refused, nor is a
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A body may have `size` bytes and take `seconds`."""
        self._app = app
        self._load = load
        self._bodies = Bodies(load, size, seconds, clock)
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
        """The place of a request, and its body where there is one. Raises Refused."""
        if scope["method"] in ("DELETE", "OPTIONS"):
            return nullcontext(), _replay(EMPTY, receive)
        asks = not _may_answer(scope)
        if asks:
            self._check(scope, who)
        if scope["method"] in ("GET", "HEAD"):
            return Place(self._load.calls, who), receive
        body = await self._bodies.read(scope, receive, who)
        if asks or _asks(body.get("body", b"")):
            self._check(scope, who)  # others may have come meanwhile
            return Place(self._load.calls, who), _replay(body, receive)
        return nullcontext(), _replay(body, receive)

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


class Bodies:
    """Bodies on their way: each is read whole, so that the bound holds for all.

    There may be as many as calls, of one caller its share; beyond that, one that takes longer than
    `PATIENCE` gives way. What a caller sends goes on no faster than `RATE`: everybody else waits
    while it is understood.
    """

    def __init__(self, load: Load, size: int, seconds: float, clock: Callable[[], float]) -> None:
        self._places = load.calls
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._coming: dict[anyio.CancelScope, tuple[str, float]] = {}  # holder, start
        self._due: dict[str, float] = {}  # by holder: when the next body may go on

    async def read(self, scope: Scope, receive: Receive, who: str) -> Message:
        """The whole body as one message, or the client's disconnect. Raises Refused."""
        if _declared(scope) > self._size:
            raise Refused("too_large")
        self._make_room(who)
        reason = "too_slow"
        with anyio.move_on_after(self._seconds) as coming:
            self._coming[coming] = who, self._clock()
            try:
                body = await self._whole(receive)
                reason = "own_bytes"
                await anyio.sleep(self._counted(who, len(body.get("body", b""))))
                return body
            finally:
                self._coming.pop(coming, None)
        raise Refused(reason)

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

    def _counted(self, who: str, size: int) -> float:
        """Count so many bytes of a caller; seconds until they may go on. Raises Refused."""
        now = self._clock()
        self._due = {one: due for one, due in self._due.items() if due > now - BURST / RATE}
        due = self._due.get(who, now - BURST / RATE)
        if due - now > self._seconds:
            raise Refused("own_bytes")
        self._due[who] = due + size / RATE
        return max(0.0, due - now)

    def _make_room(self, who: str) -> None:
        """Raise Refused where there is no room, even if the slowest gives way."""
        rivals = [coming for coming, (owner, _) in self._coming.items() if owner == who]
        reason = self._places.own_full
        if len(rivals) < self._places.own:
            rivals, reason = [*self._coming], self._places.full
            if len(rivals) < self._places.most:
                return
        if self._clock() - self._coming[rivals[0]][1] < PATIENCE:
            raise Refused(reason)
        del self._coming[rivals[0]]
        rivals[0].cancel()


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
