"""Limits on the requests, event streams and sessions of all callers and of each. Pure ASGI.

A refusal is answered before anything is read, so callers within the limits keep their latency. The
limits of uvicorn and of the SDK know no callers: one greedy caller would take them all.
"""

import math
import time
from collections import Counter
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server_qdrant.core.access import CALLER, Caller

SHARE = 0.5  # of each limit that one caller may take
STREAMS = SESSIONS = 1000
IDLE_SECONDS = 1800.0  # after which the SDK ends an unused session
HEALTH = ("/healthz", "/readyz", "/metrics")
MCP = "/mcp"
STREAM_PATHS = (MCP, "/sse")
SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
LISTEN = (b"mcp-method", b"subscriptions/listen")
SESSIONLESS = "2026"  # the first year of the protocol without sessions
RETRY_SECONDS = 1
SERVER_ERROR = -32000  # JSON-RPC's
PLACE = "mcp_server_qdrant.place"  # key of the ASGI scope, for work in other tasks

# Why a request is refused.
SENTENCES = {
    "draining": "The server is shutting down; try again, another one may answer.",
    "calls": "You, or all callers together, have as many requests under way as the server takes; "
    "wait for one to end, and try again.",
    "streams": "You, or all callers together, keep open as many event streams as the server takes; "
    "close some, or try again shortly.",
    "sessions": "You keep open as many sessions as one caller may; end some with DELETE, or wait "
    "until unused ones have ended.",
}


def holder(scope: Scope) -> str:
    """Whose limits a request counts against: a token's name, or else the client's address."""
    who = scope.get(CALLER)
    if isinstance(who, Caller):
        return f"token {who.name}"
    return str((scope.get("client") or ("",))[0])


class Places:
    """A number of places, of which one caller has its share at most."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.own = math.ceil(most * SHARE)
        self.held = Counter[str]()

    @property
    def count(self) -> int:
        """Places taken."""
        return self.held.total()

    def full(self, who: str) -> bool:
        """True where the caller may not have another."""
        return self.held[who] >= self.own or self.count >= self.most


class Place:
    """The place of one request, taken by whoever enters first and left by who leaves last.

    So it is held until the request was answered and the call that it began is done: over SSE, or
    where the client went, a call lasts longer than its request.
    """

    def __init__(self, places: Places, who: str) -> None:
        self._held = places.held
        self._who = who
        self._users = 0

    def __enter__(self) -> None:
        if not self._users:
            self._held[self._who] += 1
        self._users += 1

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self._held[self._who] -= 1
            if not self._held[self._who]:
                del self._held[self._who]


class Sessions:
    """The sessions that each caller has opened; the SDK ends those that nobody uses."""

    def __init__(self, own: int, clock: Callable[[], float]) -> None:
        self._own = own
        self._clock = clock
        self._open: dict[str, tuple[str, float]] = {}  # id -> who opened it, when it was used last

    def full(self, who: str) -> bool:
        """True where the caller may not open another."""
        since = self._clock() - IDLE_SECONDS
        self._open = {one: known for one, known in self._open.items() if known[1] > since}
        return sum(owner == who for owner, _ in self._open.values()) >= self._own

    def answered(self, scope: Scope, status: int, made: str | None) -> None:
        """Note by the answer to a request whether a session began, goes on or is over."""
        given = Headers(scope=scope).get(SESSION)
        if given and (status == 404 or (status < 300 and scope["method"] == "DELETE")):
            self._open.pop(given, None)
        elif given in self._open:
            self._open[given] = self._open[given][0], self._clock()
        elif made and not given and status < 400:
            self._open[made] = holder(scope), self._clock()


class Load:
    """What a server has in hand, and whether it is draining."""

    def __init__(
        self,
        calls: int = 64,
        streams: int = STREAMS,
        sessions: int = SESSIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.draining = False
        self.calls = Places(calls)
        self.streams = Places(streams)
        self.sessions = Sessions(math.ceil(sessions * SHARE), clock)

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is not served now: a key of `SENTENCES`."""
        who = holder(scope)
        if self.draining:
            return "draining"
        if _is_stream(scope):
            return "streams" if self.streams.full(who) else None
        if _opens_session(scope) and self.sessions.full(who):
            return "sessions"
        return "calls" if self.calls.full(who) else None

    def place(self, scope: Scope) -> Place:
        """The place that a request takes."""
        return Place(self.streams if _is_stream(scope) else self.calls, holder(scope))


class Limits:
    """429 beyond so much at once, of all or of one caller, 503 while the server drains.

    Probes are never refused, nor is a client that ends its session.
    """

    def __init__(
        self, app: ASGIApp, load: Load, refused: Callable[[str], None] = lambda _: None
    ) -> None:
        self._app = app
        self._load = load
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
        elif scope["method"] in ("DELETE", "OPTIONS"):
            await self._serve(scope, receive, send)
        elif reason := self._load.refusal(scope):
            self._refused(reason)
            await _answer(reason)(scope, receive, send)
        else:
            with (place := self._load.place(scope)):
                await self._serve({**scope, PLACE: place}, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; an event stream that it leaves, as at its end, is completed."""
        unfinished = False

        async def sent(message: Message) -> None:
            nonlocal unfinished
            started = message["type"] == "http.response.start"
            unfinished = started or message.get("more_body", False)
            if started and scope["path"] == MCP:
                made = Headers(raw=message.get("headers", [])).get(SESSION)
                self._load.sessions.answered(scope, message["status"], made)
            await send(message)

        await self._app(scope, receive, sent)
        if unfinished and _is_stream(scope):
            await send({"type": "http.response.body"})


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


def _answer(reason: str) -> JSONResponse:
    """The sentence of the reason, in the shape MCP clients know."""
    error = {"code": SERVER_ERROR, "message": SENTENCES[reason]}
    status = 503 if reason == "draining" else 429
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
