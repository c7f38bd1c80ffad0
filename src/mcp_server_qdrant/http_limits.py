"""How much a server takes on at once, and in what order it ends. Pure ASGI.

A refusal is answered before anything is done, and before anything is read but a small message of
a session, so that it costs next to nothing and those within the limit keep their latency.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Literal

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEALTH = ("/healthz", "/readyz", "/metrics")
STREAM_PATHS = ("/mcp", "/sse")
LISTEN = b"subscriptions/listen"
BODY_SECONDS = 15.0
ANSWER_BYTES, ANSWER_SECONDS = 65_536, 2.0
RETRY_SECONDS = 1
SERVER_ERROR = -32000  # JSON-RPC's

Refusal = Literal["draining", "busy", "streams", "too_large", "too_slow"]
REFUSALS: tuple[Refusal, ...] = ("draining", "busy", "streams", "too_large", "too_slow")
_ANSWERS: dict[Refusal, tuple[int, str]] = {
    "draining": (503, "The server is ending; try again, another one may answer."),
    "busy": (429, "The server works on as many requests as it may; try again shortly."),
    "streams": (429, "The server keeps as many event streams open as it may; try again shortly."),
    "too_large": (413, "The request is larger than the server takes; send less at once."),
    "too_slow": (408, "The request did not arrive in time."),
}


class Load:
    """What a server is busy with, and whether it takes on more.

    `background` counts calls whose request was answered before they were done, as over SSE.
    """

    def __init__(self, background: Callable[[], int] = lambda: 0) -> None:
        self.draining = False
        self.calls = 0
        self._background = background
        self._streams: set[anyio.CancelScope] = set()

    @property
    def streams(self) -> int:
        """Event streams that are open."""
        return len(self._streams)

    @property
    def under_way(self) -> int:
        """Calls that are not done."""
        return max(self.calls, self._background())

    async def call(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call. It is over with the last part of its answer: the client may go on."""
        self.calls += 1
        over = False

        async def watched(message: Message) -> None:
            nonlocal over
            if _is_last(message) and not over:
                over = True
                self.calls -= 1
            await send(message)

        try:
            await app(scope, receive, watched)
        finally:
            if not over:
                self.calls -= 1

    async def stream(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event stream until either side ends it."""
        began = ended = False

        async def watched(message: Message) -> None:
            nonlocal began, ended
            began = True
            ended = _is_last(message)
            await send(message)

        with anyio.CancelScope() as cancel:
            self._streams.add(cancel)
            try:
                await app(scope, receive, watched)
            finally:
                self._streams.discard(cancel)
        if cancel.cancelled_caught and began and not ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def end_streams(self) -> None:
        """End every open event stream."""
        for cancel in list(self._streams):
            cancel.cancel()


class Limits:
    """429 beyond so many calls or streams at once, 503 while the server ends.

    Answers to what a call has asked its client, and notifications, always pass.

    What tells how the server fares is never refused, nor is a client that ends its session.
    """

    def __init__(
        self,
        app: ASGIApp,
        load: Load,
        *,
        calls: int,
        streams: int,
        refused: Callable[[Refusal], None] = lambda _: None,
    ) -> None:
        self._app = app
        self._load = load
        self._calls = calls
        self._streams = streams
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        free = scope["type"] != "http" or scope["path"] in HEALTH
        if free or scope["method"] in ("DELETE", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        stream = _is_stream(scope)
        if (reason := self._reason(stream=stream)) is not None:
            if reason != "streams" and (body := await _answer(scope, receive)) is not None:
                await self._app(scope, _again(body, receive), send)
                return
            self._refused(reason)
            await refuse(reason, send)
        elif stream:
            await self._load.stream(self._app, scope, receive, send)
        else:
            await self._load.call(self._app, scope, receive, send)

    def _reason(self, *, stream: bool) -> Refusal | None:
        if self._load.draining:
            return "draining"
        if stream:
            return "streams" if self._load.streams >= self._streams else None
        return "busy" if self._load.under_way >= self._calls else None


def _is_last(message: Message) -> bool:
    """Whether nothing of the answer comes after this."""
    return message["type"] == "http.response.body" and not message.get("more_body")


def _is_stream(scope: Scope) -> bool:
    """Whether the answer is a stream that stays open, and no call waits for its end."""
    if scope["method"] == "GET":
        return scope["path"] in STREAM_PATHS
    return (b"mcp-method", LISTEN) in scope["headers"]


class BodyLimit:
    """413 for a body of more than `size` bytes, 408 for one that takes longer than `seconds`.

    The body is read whole before it is handed on, so that it holds without Content-Length too.
    """

    def __init__(
        self,
        app: ASGIApp,
        size: int,
        *,
        seconds: float = BODY_SECONDS,
        refused: Callable[[Refusal], None] = lambda _: None,
    ) -> None:
        self._app = app
        self._size = size
        self._seconds = seconds
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        reason: Refusal = "too_large"
        body = None
        if _declared(scope) <= self._size:
            try:
                async with asyncio.timeout(self._seconds):
                    body = await _whole(receive, self._size)
            except TimeoutError:
                reason = "too_slow"
        if body is None:
            self._refused(reason)
            await refuse(reason, send)
            return
        await self._app(scope, _again(body, receive), send)


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


async def _answer(scope: Scope, receive: Receive) -> Message | None:
    """The body of a client's small message within its session that asks for nothing; else None.

    It answers what a call under way has asked, or takes a call back: refused, no call would end.
    """
    names = {name for name, _ in scope["headers"]}
    within = b"mcp-session-id" in names or b"session_id=" in scope["query_string"]
    if scope["method"] != "POST" or not within or not 0 < _declared(scope) <= ANSWER_BYTES:
        return None
    body = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            body = await _whole(receive, ANSWER_BYTES)
    return body if body is not None and _asks_nothing(body.get("body", b"")) else None


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
    status, sentence = _ANSWERS[reason]
    error = {"code": SERVER_ERROR, "message": sentence}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status in (429, 503):
        headers.append((b"retry-after", b"%d" % RETRY_SECONDS))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
