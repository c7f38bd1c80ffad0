"""How much a server takes on at once, of all callers and of each. Pure ASGI.

A refusal is answered before anything is done, and before anything is read but a small message of
a session, so that it costs next to nothing and those within the limit keep their latency.
"""

import json
import time
from collections.abc import Callable
from typing import Any, Literal

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server_qdrant.core.access import HOLDER
from mcp_server_qdrant.http.load import Full, Load, holder

HEALTH = ("/healthz", "/readyz", "/metrics")
MCP = "/mcp"
STREAM_PATHS = (MCP, "/sse")
SESSION, VERSION = b"mcp-session-id", b"mcp-protocol-version"
LISTEN = b"subscriptions/listen"
SESSIONLESS = b"2026"  # the first year of the protocol without sessions
BODY_SECONDS = 15.0
PATIENCE = 1.0  # seconds after which a body that is still on its way gives way to another
SMALL_BYTES, SMALL_SECONDS = 65_536, 2.0
RETRY_SECONDS = 1
SERVER_ERROR = -32000  # JSON-RPC's

Refusal = Literal[
    "draining",
    "busy",
    "own_calls",
    "streams",
    "own_streams",
    "sessions",
    "own_sessions",
    "too_large",
    "too_slow",
]
_SENTENCES: dict[Refusal, str] = {
    "draining": "The server is ending; try again, another one may answer.",
    "busy": "Others keep the server busy with as many requests as it may work on; try again "
    "shortly.",
    "own_calls": "You have as many requests under way as one caller may; try again when some are "
    "done.",
    "streams": "Others keep open as many event streams as the server may have; try again shortly.",
    "own_streams": "You keep open as many event streams as one caller may; close some.",
    "sessions": "Others keep open as many sessions as the server may have; try again later.",
    "own_sessions": "You keep open as many sessions as one caller may; end some with DELETE, or "
    "wait until unused ones have ended.",
    "too_large": "The request is larger than the server takes; send less at once.",
    "too_slow": "The request did not arrive in time.",
}
_STATUS: dict[Refusal, int] = {"draining": 503, "too_large": 413, "too_slow": 408}  # else 429
REFUSALS: tuple[Refusal, ...] = tuple(_SENTENCES)
_CALLS: dict[Full, Refusal] = {"own": "own_calls", "others": "busy"}
_STREAMS: dict[Full, Refusal] = {"own": "own_streams", "others": "streams"}
_SESSIONS: dict[Full, Refusal] = {"own": "own_sessions", "others": "sessions"}


class Limits:
    """429 beyond so much at once, of all or of one caller, 503 while the server ends.

    A body is read whole first, so that one that trickles holds no place of a call. Answers to what
    a call has asked its client, and notifications, always pass. What tells how the server fares is
    never refused, nor is a client that ends its session.
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
        """`size` in bytes and `seconds` are what a body may have."""
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
        scope = {**scope, HOLDER: who}
        send = self._following(scope, send)
        if scope["method"] in ("DELETE", "OPTIONS"):
            await self._read(scope, await self._bodies.small(receive), receive, send)
        elif not _is_stream(scope):
            await self._call(scope, receive, send)
        elif reason := self._no_stream(who):
            await self._refuse(reason, send)
        else:
            await self._load.stream(self._app, scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = self._no_call(scope)
        if reason and not _may_answer(scope):
            await self._refuse(reason, send)
        elif scope["method"] in ("GET", "HEAD"):
            await self._load.call(self._app, scope, receive, send)
        else:
            body = await self._bodies.read(scope, receive)
            await self._read(scope, body, receive, send, call=True)

    async def _read(
        self,
        scope: Scope,
        body: Message | Refusal,
        receive: Receive,
        send: Send,
        *,
        call: bool = False,
    ) -> None:
        """Serve a request whose body was read, or refuse it: others may have come meanwhile."""
        if isinstance(body, str):
            await self._refuse(body, send)
            return
        reason = self._no_call(scope) if call else None
        if reason and not (_may_answer(scope) and _asks_nothing(body.get("body", b""))):
            await self._refuse(reason, send)
        elif call and not reason:
            await self._load.call(self._app, scope, _again(body, receive), send)
        else:
            await self._app(scope, _again(body, receive), send)

    async def _refuse(self, reason: Refusal, send: Send) -> None:
        self._refused(reason)
        await refuse(reason, send)

    def _no_stream(self, who: str) -> Refusal | None:
        if self._load.draining:
            return "draining"
        full = self._load.streams.full(who)
        return _STREAMS[full] if full else None

    def _no_call(self, scope: Scope) -> Refusal | None:
        if self._load.draining:
            return "draining"
        if full := self._load.busy(scope[HOLDER]):
            return _CALLS[full]
        if _opens_session(scope) and (full := self._load.sessions.full(scope[HOLDER])):
            return _SESSIONS[full]
        return None

    def _following(self, scope: Scope, send: Send) -> Send:
        """What answers, and sees which sessions begin and end."""
        if scope["path"] != MCP:
            return send
        sessions, who, given = self._load.sessions, scope[HOLDER], _header(scope, SESSION)
        if given:
            sessions.used(given, who)

        async def followed(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                made = _header(message, SESSION)
                if made and not given and status < 400:
                    sessions.opened(made, who)
                elif given and (status == 404 or (status < 300 and scope["method"] == "DELETE")):
                    sessions.ended(given, who)
            await send(message)

        return followed


def _header(message: Any, name: bytes) -> bytes:
    """A header of a request or a response; empty where there is none."""
    return next((value for one, value in message.get("headers", ()) if one == name), b"")


def _is_stream(scope: Scope) -> bool:
    """Whether the answer is a stream that stays open, and no call waits for its end."""
    if scope["method"] == "GET":
        return scope["path"] in STREAM_PATHS
    return (b"mcp-method", LISTEN) in scope["headers"]


def _opens_session(scope: Scope) -> bool:
    """Whether nothing but a new session can come of it, where this server keeps sessions."""
    fresh = scope["method"] == "POST" and scope["path"] == MCP and not _header(scope, SESSION)
    return fresh and _header(scope, VERSION) < SESSIONLESS


class Bodies:
    """Bodies that are on their way: each is read whole, so that the bound holds for all.

    There may be as many as calls, of one caller its share; beyond that, one that takes longer than
    `PATIENCE` gives way.
    """

    def __init__(self, load: Load, size: int, seconds: float, clock: Callable[[], float]) -> None:
        self._load = load
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._coming: dict[anyio.CancelScope, tuple[str, float]] = {}  # whose, since when

    async def read(self, scope: Scope, receive: Receive) -> Message | Refusal:
        """The whole body as one message, or the client's leave; or why it is refused."""
        who = scope[HOLDER]
        if _declared(scope) > self._size:
            return "too_large"
        if full := self._full(who):
            return _CALLS[full]
        with anyio.move_on_after(self._seconds) as coming:
            self._coming[coming] = who, self._clock()
            try:
                return await _whole(receive, self._size) or "too_large"
            finally:
                self._coming.pop(coming, None)
        return "too_slow"

    async def small(self, receive: Receive) -> Message | Refusal:
        """The same of a request that needs none: it counts nowhere and may not take long."""
        with anyio.move_on_after(SMALL_SECONDS):
            return await _whole(receive, SMALL_BYTES) or "too_large"
        return "too_slow"

    def _full(self, who: str) -> Full | None:
        """Why there is no room for one more, even where the slowest gives way."""
        places, own = self._load.calls, [one for one, _ in self._coming.values()].count(who)
        full: Full = "own" if own >= places.own else "others"
        if full == "others" and len(self._coming) < places.most:
            return None
        slowest, since = next(
            (coming, since)
            for coming, (one, since) in self._coming.items()
            if full == "others" or one == who
        )
        if self._clock() - since < PATIENCE:
            return full
        del self._coming[slowest]
        slowest.cancel()
        return None


async def _whole(receive: Receive, most: int) -> Message | None:
    """The whole body as one message, or the client's leave; None where it is too large."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return message
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            return None
        more = message.get("more_body", False)
    return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def _again(body: Message, receive: Receive) -> Receive:
    """What gives the body that was read already, and then what comes."""
    unread = [body]

    async def replayed() -> Message:
        return unread.pop() if unread else await receive()

    return replayed


def _may_answer(scope: Scope) -> bool:
    """Whether it can be a client's small message within its session that asks for nothing.

    It answers what a call under way has asked, or takes a call back: refused, no call would end.
    """
    within = _header(scope, SESSION) or b"session_id=" in scope["query_string"]
    return bool(within and scope["method"] == "POST" and 0 < _declared(scope) <= SMALL_BYTES)


def _asks_nothing(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and not {"id", "method"} <= set(message)


def _declared(scope: Scope) -> int:
    """What Content-Length says, 0 where it says nothing sound."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def refuse(reason: Refusal, send: Send) -> None:
    """Answer with the status of the reason and one sentence, in the shape MCP clients know."""
    status = _STATUS.get(reason, 429)
    error = {"code": SERVER_ERROR, "message": _SENTENCES[reason]}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status in (429, 503):
        headers.append((b"retry-after", b"%d" % RETRY_SECONDS))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
