"""Limits on the work at once, of all callers and of each. Pure ASGI.

A refusal is answered before anything is done, and before anything is read but a small message of
a session. So it costs next to nothing, and callers within the limit keep their latency.
"""

import json
import time
from collections.abc import Awaitable, Callable

import anyio
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server_qdrant.core.access import HOLDER
from mcp_server_qdrant.http.load import Load, Refusal, holder, tapped

HEALTH = ("/healthz", "/readyz", "/metrics")
MCP = "/mcp"
STREAM_PATHS = (MCP, "/sse")
SESSION, VERSION = "mcp-session-id", "mcp-protocol-version"
LISTEN = (b"mcp-method", b"subscriptions/listen")
SESSIONLESS = "2026"  # the first year of the protocol without sessions
BODY_SECONDS = 15.0
REMEMBERED = 1_000  # callers
OWN_BYTES: Refusal = "own_bytes"
PATIENCE = 1.0  # seconds after which an unfinished body gives way to another
SMALL_BYTES, SMALL_SECONDS = 65_536, 2.0
RATE = 1_000_000  # bytes a second of one caller: to understand them takes a tenth of that second
BURST = RATE // 4  # that are taken at once
RETRY_SECONDS = 1
SERVER_ERROR = -32000  # JSON-RPC's

SENTENCES: dict[Refusal, str] = {
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
STATUSES: dict[Refusal, int] = {"draining": 503, "too_large": 413, "too_slow": 408}  # else 429

Serve = Callable[[ASGIApp, Scope, Receive, Send], Awaitable[None]]


class Refused(Exception):
    """A request that is not served."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason = reason


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
        size: int,
        *,
        seconds: float = BODY_SECONDS,
        refused: Callable[[Refusal], None] = lambda _: None,
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
        scope = {**scope, HOLDER: holder(scope)}
        send = self._following(scope, send)
        try:
            serve, receive = await self._admitted(scope, receive)
        except Refused as refused:
            self._refused(refused.reason)
            await refusal(refused.reason)(scope, receive, send)
        else:
            await serve(self._app, scope, receive, send)

    async def _admitted(self, scope: Scope, receive: Receive) -> tuple[Serve, Receive]:
        """The way to serve a request, and its body where that was read. Raises Refused."""
        if scope["method"] in ("DELETE", "OPTIONS"):
            return _uncounted, _replay(await self._bodies.small(receive), receive)
        if _is_stream(scope):
            if reason := self._load.no_stream(scope[HOLDER]):
                raise Refused(reason)
            return self._load.stream, receive
        reason = self._no_call(scope)
        if reason and not _may_answer(scope):
            raise Refused(reason)
        if scope["method"] in ("GET", "HEAD"):
            return self._load.call, receive
        body = await self._bodies.read(scope, receive)
        reason = self._no_call(scope)  # others may have come meanwhile
        if reason and not (_may_answer(scope) and _asks_nothing(body.get("body", b""))):
            raise Refused(reason)
        return _uncounted if reason else self._load.call, _replay(body, receive)

    def _no_call(self, scope: Scope) -> Refusal | None:
        reason = self._load.no_call(scope[HOLDER])
        if reason is None and _opens_session(scope):
            reason = self._load.sessions.refusal(scope[HOLDER])
        return reason

    def _following(self, scope: Scope, send: Send) -> Send:
        """`send`, which also sees which sessions begin and end."""
        if scope["path"] != MCP:
            return send
        sessions, who = self._load.sessions, scope[HOLDER]
        given = Headers(scope=scope).get(SESSION)
        if given:
            sessions.used(given, who)

        def see(message: Message) -> None:
            if message["type"] != "http.response.start":
                return
            status, made = message["status"], Headers(raw=message.get("headers", [])).get(SESSION)
            if made and not given and status < 400:
                sessions.opened(made, who)
            elif given and (status == 404 or (status < 300 and scope["method"] == "DELETE")):
                sessions.ended(given, who)

        return tapped(send, see)


async def _uncounted(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request that takes no place."""
    await app(scope, receive, send)


def _is_stream(scope: Scope) -> bool:
    """True where the answer is a stream that stays open, and no call waits for its end."""
    if scope["method"] == "GET":
        return scope["path"] in STREAM_PATHS
    return LISTEN in scope["headers"]


def _opens_session(scope: Scope) -> bool:
    """True where the request can only open a new session, where this server keeps sessions."""
    headers = Headers(scope=scope)
    fresh = scope["method"] == "POST" and scope["path"] == MCP and not headers.get(SESSION)
    return fresh and headers.get(VERSION, "") < SESSIONLESS


class Bodies:
    """Bodies on their way: each is read whole, so that the bound holds for all.

    There may be as many as calls, of one caller its share; beyond that, one that takes longer than
    `PATIENCE` gives way. What a caller sends is counted, and read no faster than `RATE`: everybody
    else waits while it is understood.
    """

    def __init__(self, load: Load, size: int, seconds: float, clock: Callable[[], float]) -> None:
        self._places = load.calls
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._coming: dict[anyio.CancelScope, tuple[str, float]] = {}  # holder, start
        self._sent: dict[str, float] = {}  # by holder: when the next body may be read

    async def read(self, scope: Scope, receive: Receive) -> Message:
        """The whole body as one message, or the client's disconnect. Raises Refused."""
        who = scope[HOLDER]
        declared = _declared(scope)
        if declared > self._size:
            raise Refused("too_large")
        self._make_room(who)
        wait, reason = self._counted(who, declared), OWN_BYTES
        with anyio.move_on_after(self._seconds) as coming:
            self._coming[coming] = who, self._clock()
            try:
                await anyio.sleep(wait)
                reason = "too_slow"
                body = await _whole(receive, self._size)
                self._counted(who, len(body.get("body", b"")) - declared)
                return body
            finally:
                self._coming.pop(coming, None)
        raise Refused(reason)

    def _counted(self, who: str, size: int) -> float:
        """Count so many bytes of a caller; seconds until they may be read."""
        now = self._clock()
        due = max(self._sent.get(who, 0.0), now - BURST / RATE)
        self._sent[who] = min(due + max(size, 0) / RATE, now + 2 * self._seconds)
        if len(self._sent) > REMEMBERED:
            self._sent = {caller: due for caller, due in self._sent.items() if due > now}
        return max(0.0, due - now)

    async def small(self, receive: Receive) -> Message:
        """The same of a request that needs none: it counts nowhere and may not take long."""
        with anyio.move_on_after(SMALL_SECONDS):
            return await _whole(receive, SMALL_BYTES)
        raise Refused("too_slow")

    def _make_room(self, who: str) -> None:
        """Raise Refused where there is no room, even if the slowest gives way."""
        places = self._places
        own = [owner for owner, _ in self._coming.values()].count(who) >= places.own
        if not own and len(self._coming) < places.most:
            return
        slowest, since = next(
            (coming, since)
            for coming, (owner, since) in self._coming.items()
            if not own or owner == who
        )
        if self._clock() - since < PATIENCE:
            raise Refused(places.own_full if own else places.full)
        del self._coming[slowest]
        slowest.cancel()


async def _whole(receive: Receive, most: int) -> Message:
    """The whole body as one message, or the client's disconnect. Raises Refused."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body += message.get("body", b"")
        if len(body) > most:
            raise Refused("too_large")
        more = message.get("more_body", False)
    return {"type": "http.request", "body": bytes(body), "more_body": False}


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
    return bool(within) and scope["method"] == "POST" and 0 < _declared(scope) <= SMALL_BYTES


def _asks_nothing(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and not {"id", "method"} <= set(message)


def _declared(scope: Scope) -> int:
    """The Content-Length, 0 where it is missing or malformed."""
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0


def refusal(reason: Refusal) -> JSONResponse:
    """The status of the reason and one sentence, in the shape MCP clients know."""
    status = STATUSES.get(reason, 429)
    error = {"code": SERVER_ERROR, "message": SENTENCES[reason]}
    headers = {"Retry-After": str(RETRY_SECONDS)} if status in (429, 503) else None
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
