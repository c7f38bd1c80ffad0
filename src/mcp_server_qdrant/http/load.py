"""What a server over HTTP is busy with, for whom, and whether it takes on more."""

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server_qdrant.core.access import CALLER, STANDS, Caller

IDLE_SECONDS = 1800.0  # after which a session that nobody uses is ended

Full = Literal["own", "others"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much there may be at once; `share`, from 0 to 1, is what one caller may have of it."""

    calls: int = 64
    streams: int = 1000
    sessions: int = 1000
    share: float = 0.5


def holder(scope: Scope) -> str:
    """Whose limits a request counts against: a token's name, or the address that it came from."""
    who = scope.get(CALLER)
    if isinstance(who, Caller):
        return f"token {who.name}"
    return str((scope.get("client") or ("",))[0])


class Places:
    """So many at once, of one caller no more than its share."""

    def __init__(self, most: int, share: float) -> None:
        self.most = most
        self.own = max(1, math.ceil(most * share))
        self._of = Counter[str]()

    @property
    def count(self) -> int:
        """How many are taken."""
        return self._of.total()

    def of(self, who: str) -> int:
        """How many this caller has."""
        return self._of[who]

    def full(self, who: str, *, more: int = 0, own: int = 0) -> Full | None:
        """Why the caller cannot have another; `more` and `own` were taken elsewhere."""
        if max(self.of(who), own) >= self.own:
            return "own"
        return "others" if max(self.count, more) >= self.most else None

    def take(self, who: str) -> None:
        """One more."""
        self._of[who] += 1

    def leave(self, who: str) -> None:
        """One less."""
        self._of[who] -= 1
        if self._of[who] <= 0:
            del self._of[who]


class Sessions:
    """Who opened which sessions, as far as they may still be open."""

    def __init__(
        self, most: int, share: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = Places(most, share)
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[str, float]] = OrderedDict()  # whose, last used

    def full(self, who: str) -> Full | None:
        """Why the caller cannot have another."""
        while self._known:
            session, (owner, used) = next(iter(self._known.items()))
            if self._clock() - used < IDLE_SECONDS:
                break
            self.ended(session, owner)
        return self._places.full(who)

    def opened(self, session: bytes, who: str) -> None:
        """The caller has a new one."""
        self._known[session] = who, self._clock()
        self._places.take(who)

    def used(self, session: bytes, who: str) -> None:
        """The caller goes on with one."""
        if self._known.get(session, ("",))[0] == who:
            self._known[session] = who, self._clock()
            self._known.move_to_end(session)

    def ended(self, session: bytes, who: str) -> None:
        """It is over, if it is the caller's."""
        if self._known.get(session, ("",))[0] == who:
            del self._known[session]
            self._places.leave(who)


class Standing:
    """What is going on for callers whose token can be withdrawn."""

    def __init__(self) -> None:
        self._open: dict[anyio.CancelScope, Callable[[], bool]] = {}

    @contextmanager
    def watched(self, scope: Scope) -> Iterator[anyio.CancelScope]:
        """Everything inside is cancelled once the token of the request no longer stands."""
        with anyio.CancelScope() as cancel:
            if stands := scope.get(STANDS):
                self._open[cancel] = stands
            try:
                yield cancel
            finally:
                self._open.pop(cancel, None)

    def end_withdrawn(self) -> None:
        """Cancel what no token stands for any more."""
        for cancel, stands in list(self._open.items()):
            if not stands():
                cancel.cancel()


class Load:
    """What a server is busy with.

    `background` counts calls whose request was answered before they were done, as over SSE: those
    of a holder, or all.
    """

    def __init__(
        self, bounds: Bounds | None = None, background: Callable[[str | None], int] = lambda _: 0
    ) -> None:
        bounds = bounds or Bounds()
        self.draining = False
        self.calls = Places(bounds.calls, bounds.share)
        self.streams = Places(bounds.streams, bounds.share)
        self.sessions = Sessions(bounds.sessions, bounds.share)
        self.standing = Standing()
        self._background = background
        self._open: set[anyio.CancelScope] = set()

    @property
    def under_way(self) -> int:
        """Calls that are not done."""
        return max(self.calls.count, self._background(None))

    def busy(self, who: str) -> Full | None:
        """Why a call of this caller is not taken on."""
        return self.calls.full(who, more=self.under_way, own=self._background(who))

    async def call(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call. It is over with the last part of its answer: the client may go on."""
        who = holder(scope)
        self.calls.take(who)
        over = False

        async def watched(message: Message) -> None:
            nonlocal over
            if _is_last(message) and not over:
                over = True
                self.calls.leave(who)
            await send(message)

        try:
            await app(scope, receive, watched)
        finally:
            if not over:
                self.calls.leave(who)

    async def stream(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event stream until either side ends it, or its token is withdrawn."""
        who = holder(scope)
        began = ended = False

        async def watched(message: Message) -> None:
            nonlocal began, ended
            began = True
            ended = _is_last(message)
            await send(message)

        self.streams.take(who)
        with self.standing.watched(scope) as cancel:
            self._open.add(cancel)
            try:
                await app(scope, receive, watched)
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
    """Whether nothing of the answer comes after this."""
    return message["type"] == "http.response.body" and not message.get("more_body")
