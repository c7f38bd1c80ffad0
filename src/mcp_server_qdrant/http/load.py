"""The work that a server over HTTP has in hand, for whom, and whether it takes on more."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from mcp_server_qdrant.core.access import CALLER, STANDS, Caller

SHARE = 0.5  # of each limit that one caller may take
STREAMS = SESSIONS = 1000
IDLE_SECONDS = 1800.0  # after which an unused session is ended
SESSION = "mcp-session-id"
PLACE = "mcp_server_qdrant.place"  # key of the ASGI scope, for work in other tasks


def holder(scope: Scope) -> str:
    """Whose limits a request counts against: a token's name, or else the client's address."""
    who = scope.get(CALLER)
    if isinstance(who, Caller):
        return f"token {who.name}"
    return str((scope.get("client") or ("",))[0])


def tapped(send: Send, see: Callable[[Message], None]) -> Send:
    """`send`, with each message of the answer shown to `see` first."""

    async def sent(message: Message) -> None:
        see(message)
        await send(message)

    return sent


def is_last(message: Message) -> bool:
    """True where an answer ends with this message."""
    return message["type"] == "http.response.body" and not message.get("more_body")


class Refused(Exception):
    """A request that is not served."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Places:
    """A number of places, of which one caller has its share at most.

    `own_full` and `full` are the reasons to refuse a caller whose share, or everything, is taken.
    """

    def __init__(self, most: int, own_full: str, full: str) -> None:
        self.most = most
        self.own = math.ceil(most * SHARE)
        self.own_full = own_full
        self.full = full
        self.held = Counter[str]()

    @property
    def count(self) -> int:
        """Places taken."""
        return self.held.total()

    def check(self, who: str) -> None:
        """Raise Refused where the caller may not have another."""
        if self.held[who] >= self.own:
            raise Refused(self.own_full)
        if self.count >= self.most:
            raise Refused(self.full)


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


class Sessions(Places):
    """The sessions that may still be open, by their owners."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        super().__init__(most, "own_sessions", "sessions")
        self._clock = clock
        self._known: dict[str, tuple[str, float]] = {}  # id -> owner, last used

    @override
    def check(self, who: str) -> None:
        """The same; the SDK ended those that were not used."""
        since = self._clock() - IDLE_SECONDS
        self._known = {one: known for one, known in self._known.items() if known[1] > since}
        self.held = Counter(owner for owner, _ in self._known.values())
        super().check(who)

    def following(self, scope: Scope, who: str) -> Callable[[Message], None]:
        """What sees by the answer to a request whether a session began, goes on or is over."""
        given = Headers(scope=scope).get(SESSION)

        def see(message: Message) -> None:
            if message["type"] != "http.response.start":
                return
            status, made = message["status"], Headers(raw=message.get("headers", [])).get(SESSION)
            if made and not given and status < 400:
                self._known[made] = who, self._clock()
            elif given and self._known.get(given, ("",))[0] == who:
                if status == 404 or (status < 300 and scope["method"] == "DELETE"):
                    del self._known[given]
                else:
                    self._known[given] = who, self._clock()

        return see


class Standing:
    """Work that can be ended from outside, as when its token is withdrawn."""

    def __init__(self) -> None:
        self._open: dict[anyio.CancelScope, Callable[[], bool]] = {}

    @contextmanager
    def watched(
        self, scope: Scope, ended: Callable[[], bool] = lambda: False
    ) -> Iterator[anyio.CancelScope]:
        """Cancel everything inside once `ended` says so, or the token is withdrawn."""
        stands = scope.get(STANDS) or (lambda: True)
        with anyio.CancelScope() as cancel:
            self._open[cancel] = lambda: ended() or not stands()
            try:
                yield cancel
            finally:
                del self._open[cancel]

    def look(self) -> None:
        """Cancel what has ended."""
        for cancel, ended in list(self._open.items()):
            if ended():
                cancel.cancel()


class Load:
    """A server's calls, streams and sessions, and whether it is draining."""

    def __init__(
        self,
        calls: int = 64,
        streams: int = STREAMS,
        sessions: int = SESSIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.draining = False
        self.calls = Places(calls, "own_calls", "busy")
        self.streams = Places(streams, "own_streams", "streams")
        self.sessions = Sessions(sessions, clock)
        self.standing = Standing()
        self._streams_end = False

    def check(self, places: Places, who: str) -> None:
        """Raise Refused where the caller may not have one of these places."""
        if self.draining:
            raise Refused("draining")
        places.check(who)

    async def stream(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event stream until either side ends it, or its token is withdrawn."""
        began = ended = False

        def see(message: Message) -> None:
            nonlocal began, ended
            began = True
            ended = is_last(message)

        standing = self.standing.watched(scope, lambda: self._streams_end)
        with Place(self.streams, holder(scope)), standing as cancel:
            await app(scope, receive, tapped(send, see))
        if cancel.cancelled_caught and began and not ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def end_streams(self) -> None:
        """End every open event stream."""
        self._streams_end = True
        self.standing.look()
