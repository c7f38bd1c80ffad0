"""The context of the current work: deadline, caller, visitor, client, request and recorder.

Each is set for a block, and is inherited by tasks and threads started inside.
"""

import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Literal, TypeVar

from mcp_server_qdrant.core.datatypes import Status

SCOPES = READ, WRITE, ADMIN = "read", "write", "admin"  # each includes the ones before it
CALLER = "mcp_server_qdrant.caller"  # key in the ASGI scope, for other tasks
Phase = Literal["embed", "probe", "retrieve", "rank", "rerank"]
PHASES: tuple[Phase, ...] = ("embed", "probe", "retrieve", "rank", "rerank")
QueryOutcome = Literal["found", "weak", "empty"]
QUERY_OUTCOMES: tuple[QueryOutcome, ...] = ("found", "weak", "empty")
MOMENT = 0.001  # seconds left for work that starts after the deadline
Outcome = Literal["ok", "rejected", "failed", "crashed", "cancelled"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller: the token's name, its scopes and its verified claims."""

    name: str
    scopes: frozenset[str]
    claims: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Ending:
    """How a call ends."""

    outcome: Outcome = "crashed"  # unless set otherwise


class Recorder:
    """Records calls, and the phases and outcomes of searches; this base class does nothing."""

    def call(self, tool: str) -> AbstractContextManager[Ending]:  # noqa: ARG002
        """The body is a call of this tool; set its outcome on the yielded Ending."""
        return nullcontext(Ending())

    def phase(self, name: Phase) -> AbstractContextManager[object]:  # noqa: ARG002
        """The body is this phase of the search."""
        return nullcontext()

    def record_statuses(self, statuses: Iterable[Status]) -> None:
        """Record the outcome of a search in each collection."""

    def record_outcome(self, answer: QueryOutcome, *, corrected: bool) -> None:
        """Record whether a query found something, and whether its spelling was corrected."""


_SILENT = Recorder()
_END: ContextVar[float | None] = ContextVar("deadline", default=None)
_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
_CLIENT: ContextVar[tuple[str, str] | None] = ContextVar("client", default=None)
_VISITOR: ContextVar[Hashable | None] = ContextVar("visitor", default=None)
_FOLDER: ContextVar[Path | None] = ContextVar("folder", default=None)
_REQUEST: ContextVar[str | None] = ContextVar("request_id", default=None)
_ZONE: ContextVar[tzinfo | None] = ContextVar("zone", default=None)
_RECORDER: ContextVar[Recorder] = ContextVar("recorder", default=_SILENT)


@contextmanager
def binding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set the variable for the body."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def within(seconds: float) -> AbstractContextManager[None]:
    """Set the deadline of the body, in seconds from now."""
    return binding(_END, time.monotonic() + seconds)


def seconds_left() -> float | None:
    """Seconds until the deadline, at least MOMENT; None without a deadline."""
    end = _END.get()
    return None if end is None else max(end - time.monotonic(), MOMENT)


def calling(who: Caller | None) -> AbstractContextManager[None]:
    """Set the caller of the body."""
    return binding(_CALLER, who)


def caller() -> Caller | None:
    """The caller of the current call; None without authentication (stdio, AUTH_MODE=none)."""
    return _CALLER.get()


def serving_client(client: tuple[str, str] | None) -> AbstractContextManager[None]:
    """Set the client program of the body: (name, version)."""
    return binding(_CLIENT, client)


def caller_details() -> dict[str, str]:
    """Who is calling: `client` and `version` as the program states, `caller` from the token."""
    who, client = caller(), _CLIENT.get()
    said = dict(zip(("client", "version"), client or (), strict=False))
    return said | ({"caller": who.name} if who else {})


def serving_connection(who: Hashable | None) -> AbstractContextManager[None]:
    """Set the connection that the body serves."""
    return binding(_VISITOR, who)


def current_connection() -> Hashable | None:
    """The connection of the current call; connections take turns."""
    return _VISITOR.get()


def in_folder(folder: Path | None) -> AbstractContextManager[None]:
    """Set the working folder of the client that the body serves."""
    return binding(_FOLDER, folder)


def client_folder() -> Path | None:
    """The client's working folder; None if unknown, as over HTTP."""
    return _FOLDER.get()


def use_zone(zone: tzinfo | None) -> None:
    """Set the time zone of days for this context; None: the system's."""
    _ZONE.set(zone)


def current_zone() -> tzinfo | None:
    """The time zone of days; None: the system's."""
    return _ZONE.get()


def to_local(when: datetime) -> datetime:
    """A time in the person's time zone; unchanged if it is out of range there."""
    try:
        return when.astimezone(_ZONE.get())
    except (ValueError, OverflowError, OSError):
        return when


def from_local_time(wall: datetime) -> datetime:
    """A naive local time of the person as a time in UTC."""
    try:
        return (wall.replace(tzinfo=zone) if (zone := _ZONE.get()) else wall).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return wall.replace(tzinfo=UTC)


def expand_scopes(named: Iterable[str]) -> frozenset[str]:
    """The named scopes and those that they include; unknown names are ignored."""
    reach = max((SCOPES.index(name) for name in named if name in SCOPES), default=-1)
    return frozenset(SCOPES[: reach + 1])


def recording(recorder: Recorder) -> AbstractContextManager[None]:
    """Set the recorder of the body."""
    return binding(_RECORDER, recorder)


def recorder() -> Recorder:
    """The recorder of the current call."""
    return _RECORDER.get()


def within_request(request_id: str | None) -> AbstractContextManager[None]:
    """Set the HTTP request that the body serves."""
    return binding(_REQUEST, request_id)


def request_id() -> str | None:
    """The id of the current HTTP request; None over stdio and in background tasks."""
    return _REQUEST.get()
