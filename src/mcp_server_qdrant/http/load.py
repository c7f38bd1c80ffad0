"""The work that a server over HTTP has in hand, for whom, and whether it takes on more."""

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal, get_args

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server_qdrant.core.access import CALLER, STANDS, Caller
from mcp_server_qdrant.settings.http import HttpLimits

IDLE_SECONDS = 1800.0  # after which an unused session is ended

Refusal = Literal[
    "draining",
    "busy",
    "own_calls",
    "streams",
    "own_streams",
    "sessions",
    "own_sessions",
    "too_large",
    "own_bytes",
    "too_slow",
]
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)


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


class Places:
    """A number of places, of which one caller has its share at most.

    `own_full` and `full` are the reasons to refuse a caller whose share, or everything, is taken.
    """

    def __init__(self, most: int, share: float, own_full: Refusal, full: Refusal) -> None:
        self.most = most
        self.own = max(1, math.ceil(most * share))
        self.own_full = own_full
        self.full = full
        self._held = Counter[str]()

    @property
    def count(self) -> int:
        """Places taken."""
        return self._held.total()

    def of(self, who: str) -> int:
        """Places that this caller has."""
        return self._held[who]

    def refusal(self, who: str, *, total: int = 0, own: int = 0) -> Refusal | None:
        """A reason to refuse the caller another; `total` and `own` are counts made elsewhere."""
        if max(self.of(who), own) >= self.own:
            return self.own_full
        return self.full if max(self.count, total) >= self.most else None

    def take(self, who: str) -> None:
        """Give the caller a place."""
        self._held[who] += 1

    def leave(self, who: str) -> None:
        """Take one back."""
        self._held[who] -= 1
        if self._held[who] <= 0:
            del self._held[who]


class Sessions:
    """The sessions that may still be open, with their owners."""

    def __init__(
        self, most: int, share: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = Places(most, share, "own_sessions", "sessions")
        self._clock = clock
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()  # id -> owner, last used

    def refusal(self, who: str) -> Refusal | None:
        """A reason to refuse the caller another."""
        while self._known:
            session, (owner, used) = next(iter(self._known.items()))
            if self._clock() - used < IDLE_SECONDS:
                break
            self.ended(session, owner)
        return self._places.refusal(who)

    def opened(self, session: str, who: str) -> None:
        """The caller has a new one."""
        self._known[session] = who, self._clock()
        self._places.take(who)

    def used(self, session: str, who: str) -> None:
        """The caller goes on with one."""
        if self._owns(who, session):
            self._known[session] = who, self._clock()
            self._known.move_to_end(session)

    def ended(self, session: str, who: str) -> None:
        """It is over, if it is the caller's."""
        if self._owns(who, session):
            del self._known[session]
            self._places.leave(who)

    def _owns(self, who: str, session: str) -> bool:
        return self._known.get(session, ("",))[0] == who


class Standing:
    """Work for callers whose token can be withdrawn."""

    def __init__(self) -> None:
        self._open: dict[anyio.CancelScope, Callable[[], bool]] = {}

    @contextmanager
    def watched(self, scope: Scope) -> Iterator[anyio.CancelScope]:
        """Cancel everything inside once the token of the request is withdrawn."""
        with anyio.CancelScope() as cancel:
            if stands := scope.get(STANDS):
                self._open[cancel] = stands
            try:
                yield cancel
            finally:
                self._open.pop(cancel, None)

    def end_withdrawn(self) -> None:
        """Cancel the work of every token that was withdrawn."""
        for cancel, stands in list(self._open.items()):
            if not stands():
                cancel.cancel()


class Load:
    """A server's calls, streams and sessions, and whether it is draining.

    `background` counts calls whose request was answered before they were done, as over SSE: those
    of a holder, or all.
    """

    def __init__(
        self,
        bounds: HttpLimits = HttpLimits(),  # noqa: B008 - it is frozen
        background: Callable[[str | None], int] = lambda _: 0,
    ) -> None:
        self.draining = False
        self.calls = Places(bounds.calls, bounds.share, "own_calls", "busy")
        self.streams = Places(bounds.streams, bounds.share, "own_streams", "streams")
        self.sessions = Sessions(bounds.sessions, bounds.share)
        self.standing = Standing()
        self._background = background
        self._open: set[anyio.CancelScope] = set()

    @property
    def under_way(self) -> int:
        """Calls that are not done."""
        return max(self.calls.count, self._background(None))

    def no_call(self, who: str) -> Refusal | None:
        """A reason to refuse a call of this caller."""
        if self.draining:
            return "draining"
        return self.calls.refusal(who, total=self.under_way, own=self._background(who))

    def no_stream(self, who: str) -> Refusal | None:
        """A reason to refuse an event stream of this caller."""
        return "draining" if self.draining else self.streams.refusal(who)

    async def call(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call. It is over with the last part of its answer: the client may go on."""
        who = holder(scope)
        self.calls.take(who)
        with ExitStack() as place:
            place.callback(self.calls.leave, who)

            def see(message: Message) -> None:
                if _is_last(message):
                    place.close()

            await app(scope, receive, tapped(send, see))

    async def stream(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event stream until either side ends it, or its token is withdrawn."""
        who = holder(scope)
        began = ended = False

        def see(message: Message) -> None:
            nonlocal began, ended
            began = True
            ended = _is_last(message)

        self.streams.take(who)
        with self.standing.watched(scope) as cancel:
            self._open.add(cancel)
            try:
                await app(scope, receive, tapped(send, see))
            finally:
                self._open.discard(cancel)
                self.streams.leave(who)
        if cancel.cancelled_caught and began and not ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def end_streams(self) -> None:
        """End every open event stream."""
        for cancel in list(self._open):
            cancel.cancel()


def _is_last(message: Message) -> bool:
    """True where the answer ends with this message."""
    return message["type"] == "http.response.body" and not message.get("more_body")
