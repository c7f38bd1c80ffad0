"""Limits on requests, event streams and sessions, in total and per caller. Pure ASGI.

Requests are refused before their body is read, so other callers keep their latency. The limits of
uvicorn and of the SDK are not per caller: one greedy caller could exhaust them.
"""

import math
import time
from collections.abc import Callable, Hashable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server_qdrant.core.context import CALLER, Caller

CALLS, STREAMS, SESSIONS = 64, 1000, 1000  # at a time
IDLE_SECONDS = 1800.0  # until the SDK ends an unused session
HEALTH = ("/healthz", "/readyz", "/metrics")
MCP = "/mcp"
STREAM_PATHS = (MCP, "/sse")
SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
SESSIONLESS = "2026"  # protocol versions from this year on have no sessions
RETRY_SECONDS = 1
SERVER_ERROR = -32000  # JSON-RPC's
SLOT = "mcp_server_qdrant.slot"  # key in the ASGI scope, for other tasks

TAKEN = "You, or all callers together, have as many {} as the server allows: {}, and try again."
SENTENCES = {  # why a request is refused
    "draining": "The server is shutting down; try again, another one may answer.",
    "calls": TAKEN.format("requests under way", "wait for one to end"),
    "streams": TAKEN.format("event streams open", "close some"),
    "sessions": TAKEN.format(
        "sessions open", "end some with DELETE, or wait until unused ones have ended"
    ),
}


class Slots:
    """A number of slots, of which one caller can have at most half.

    A slot is held until it is released, or until it expires.
    """

    def __init__(
        self, most: int, seconds: float = math.inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._held: dict[Hashable, tuple[str, float]] = {}  # slot -> (caller, expiry)

    @property
    def count(self) -> int:
        """Slots taken."""
        return len(self._held)

    def is_full(self, who: str) -> bool:
        """True if the caller cannot get another slot."""
        now = self._clock()
        self._held = {slot: held for slot, held in self._held.items() if held[1] > now}
        own = sum(owner == who for owner, _ in self._held.values())
        return own >= math.ceil(self._most / 2) or self.count >= self._most

    def hold(self, slot: Hashable, who: str) -> None:
        """Take a slot, or extend it for its present holder."""
        owner, _ = self._held.get(slot, (who, 0.0))
        self._held[slot] = owner, self._clock() + self._seconds

    def release(self, slot: Hashable) -> None:
        """Release a slot."""
        self._held.pop(slot, None)


class Slot:
    """The slot of one request; counts its users and is released by the last one.

    So it is held until both the request and its call are done: over SSE, or after the client has
    disconnected, a call outlives its request.
    """

    def __init__(self, slots: Slots, who: str) -> None:
        self._slots = slots
        self._who = who
        self._users = 0

    def __enter__(self) -> None:
        self._users += 1
        self._slots.hold(self, self._who)

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self._slots.release(self)


class Load:
    """The load of a server, and whether it is draining.

    Beyond the limits, in total or per caller, it answers 429, and 503 while draining. Probes and
    the end of a session are never refused.
    """

    def __init__(
        self,
        calls: int = CALLS,
        streams: int = STREAMS,
        sessions: int = SESSIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.draining = False
        self.calls = Slots(calls)
        self.streams = Slots(streams)
        self.sessions = Slots(sessions, IDLE_SECONDS, clock)

    def wrap(self, app: ASGIApp, refused: Callable[[str], None]) -> ASGIApp:
        """Wrap the application in the limits; `refused` gets the reason's key."""

        async def limited(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] in HEALTH:
                await app(scope, receive, send)
            elif scope["method"] in ("DELETE", "OPTIONS"):
                await self._serve(app, scope, receive, send)
            elif reason := self._refusal(scope):
                refused(reason)
                await _refuse(reason)(scope, receive, send)
            else:
                slots = self.streams if _is_stream(scope) else self.calls
                with (slot := Slot(slots, caller_key(scope))):
                    await self._serve(app, {**scope, SLOT: slot}, receive, send)

        return limited

    def _refusal(self, scope: Scope) -> str | None:
        who = caller_key(scope)
        if self.draining:
            return "draining"
        if _is_stream(scope):
            return "streams" if self.streams.is_full(who) else None
        if _opens_session(scope) and self.sessions.is_full(who):
            return "sessions"
        return "calls" if self.calls.is_full(who) else None

    async def _serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; complete an event stream that it leaves unfinished."""
        unfinished = False

        async def sent(message: Message) -> None:
            nonlocal unfinished
            started = message["type"] == "http.response.start"
            unfinished = started or message.get("more_body", False)
            if started and scope["path"] == MCP:
                self._track_session(scope, message)
            await send(message)

        await app(scope, receive, sent)
        if unfinished and _is_stream(scope):
            await send({"type": "http.response.body"})

    def _track_session(self, scope: Scope, answer: Message) -> None:
        """Track from a response whether a session began, continues or has ended."""
        given = Headers(scope=scope).get(SESSION)
        session = Headers(raw=answer.get("headers", [])).get(SESSION)
        if answer["status"] == 404 or (answer["status"] < 300 and scope["method"] == "DELETE"):
            self.sessions.release(given)
        elif session and answer["status"] < 400:
            self.sessions.hold(session, caller_key(scope))


def caller_key(scope: Scope) -> str:
    """The key for per-caller limits: the token's name, or else the client's address."""
    who = scope.get(CALLER)
    if isinstance(who, Caller):
        return f"token {who.name}"
    return str((scope.get("client") or ("",))[0])


def _is_stream(scope: Scope) -> bool:
    """True for a request whose response is a long-lived event stream, not a call."""
    return scope["method"] == "GET" and scope["path"] in STREAM_PATHS


def _opens_session(scope: Scope) -> bool:
    """True if the request opens a new session, in a protocol version with sessions."""
    headers = Headers(scope=scope)
    fresh = not headers.get(SESSION) and headers.get(VERSION, "") < SESSIONLESS
    return fresh and scope["method"] == "POST" and scope["path"] == MCP


def _refuse(reason: str) -> JSONResponse:
    """A refusal with the reason's sentence, as a JSON-RPC error."""
    error = {"code": SERVER_ERROR, "message": SENTENCES[reason]}
    status = 503 if reason == "draining" else 429
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
