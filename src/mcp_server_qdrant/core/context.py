"""The context of the work under way: its deadline, caller, client, request and recorder.

Each is set for a block, and holds for tasks and threads started inside.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from mcp_server_qdrant.core.datatypes import Status

SCOPES = READ, WRITE, ADMIN = "read", "write", "admin"  # each includes the ones before it
CALLER = "mcp_server_qdrant.caller"  # key of the ASGI scope, for work in other tasks
Phase = Literal["embed", "probe", "retrieve", "rank", "rerank"]
PHASES: tuple[Phase, ...] = ("embed", "probe", "retrieve", "rank", "rerank")
Answer = Literal["found", "weak", "empty"]
ANSWERS: tuple[Answer, ...] = ("found", "weak", "empty")
MOMENT = 0.001  # seconds for what begins after the deadline
Outcome = Literal["ok", "rejected", "failed", "crashed", "cancelled"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated caller: the token's name, its scopes, and the claims that were verified."""

    name: str
    scopes: frozenset[str]
    claims: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Ending:
    """How a call ends."""

    outcome: Outcome = "crashed"  # unless somebody knows better


class Recorder:
    """A record of calls, and of the phases and outcomes of searches; this one keeps nothing."""

    def call(self, tool: str) -> AbstractContextManager[Ending]:  # noqa: ARG002
        """Everything inside is a call of this tool, which says how it ends."""
        return nullcontext(Ending())

    def phase(self, name: Phase) -> AbstractContextManager[object]:  # noqa: ARG002
        """Everything inside is this phase of the search."""
        return nullcontext()

    def fared(self, statuses: Iterable[Status]) -> None:
        """Record the outcome of a search in each collection."""

    def answered(self, answer: Answer, *, corrected: bool) -> None:
        """Record whether a query found something, and whether its spelling was corrected."""


_SILENT = Recorder()
_END: ContextVar[float | None] = ContextVar("deadline", default=None)
_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
_CLIENT: ContextVar[tuple[str, str] | None] = ContextVar("client", default=None)
_REQUEST: ContextVar[str | None] = ContextVar("request_id", default=None)
_RECORDER: ContextVar[Recorder] = ContextVar("recorder", default=_SILENT)


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Inside, the variable has this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def within(seconds: float) -> AbstractContextManager[None]:
    """Everything inside is of no use later than in so many seconds."""
    return holding(_END, time.monotonic() + seconds)


def left() -> float | None:
    """Seconds that are left, a moment at least; None where no end was set."""
    end = _END.get()
    return None if end is None else max(end - time.monotonic(), MOMENT)


def calling(who: Caller | None) -> AbstractContextManager[None]:
    """Everything inside is done for `who`."""
    return holding(_CALLER, who)


def caller() -> Caller | None:
    """The caller of the current call; None without authentication (stdio, AUTH_MODE=none)."""
    return _CALLER.get()


def speaking(client: tuple[str, str] | None) -> AbstractContextManager[None]:
    """Everything inside is asked for by the client program of this name and version."""
    return holding(_CLIENT, client)


def speaker() -> dict[str, str]:
    """Who asks: `client` and `version` as the program says, `caller` by the token's name."""
    who, client = caller(), _CLIENT.get()
    said = dict(zip(("client", "version"), client or (), strict=False))
    return said | ({"caller": who.name} if who else {})


def granted(named: Iterable[str]) -> frozenset[str]:
    """The scopes that were named and those they include; names of other things are ignored."""
    reach = max((SCOPES.index(name) for name in named if name in SCOPES), default=-1)
    return frozenset(SCOPES[: reach + 1])


def recording(recorder: Recorder) -> AbstractContextManager[None]:
    """Calls and searches inside are recorded by it."""
    return holding(_RECORDER, recorder)


def recorder() -> Recorder:
    """The recorder of the call under way."""
    return _RECORDER.get()


def within_request(request_id: str | None) -> AbstractContextManager[None]:
    """Everything inside is done for this HTTP request."""
    return holding(_REQUEST, request_id)


def request_id() -> str | None:
    """The id of the HTTP request under way; None over stdio and in the background."""
    return _REQUEST.get()
