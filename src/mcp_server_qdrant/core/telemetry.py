"""Measurements of a call in progress; there are none until a server asks for them."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol

from mcp_server_qdrant.core.datatypes import Status

Phase = Literal["embed", "probe", "retrieve", "rank", "rerank"]
PHASES: tuple[Phase, ...] = ("embed", "probe", "retrieve", "rank", "rerank")
Outcome = Literal["ok", "rejected", "failed", "crashed", "cancelled"]

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


class Recorder(Protocol):
    """A record of the phases and outcomes of searches."""

    def phase(self, name: Phase) -> AbstractContextManager[object]:
        """Everything inside is this phase of the search."""

    def fared(self, statuses: Iterable[Status]) -> None:
        """Record the outcome of a search in each collection."""


class Unrecorded:
    """Measures nothing."""

    def __init__(self) -> None:
        self._nothing = nullcontext()

    def phase(self, name: Phase) -> AbstractContextManager[object]:  # noqa: ARG002
        """Nothing."""
        return self._nothing

    def fared(self, statuses: Iterable[Status]) -> None:
        """Nothing."""


@dataclass(slots=True)
class Call:
    """The tool call under way; `outcome` is filled in where its failure is known best."""

    tool: str
    outcome: Outcome | None = None


_CALL: ContextVar[Call | None] = ContextVar("call", default=None)
_REQUEST: ContextVar[str | None] = ContextVar("request_id", default=None)


@contextlib.contextmanager
def within_call(call: Call) -> Iterator[None]:
    """Everything inside is this call."""
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)


def record_outcome(outcome: Outcome) -> None:
    """Record the outcome of the current call, if calls are measured."""
    call = _CALL.get()
    if call is not None:
        call.outcome = outcome


def sane_id(given: str | None) -> str | None:
    """A request id that a client may have made up, if it can be logged and returned as it is."""
    return given if given and _SANE_ID.fullmatch(given) else None


@contextlib.contextmanager
def within_request(request_id: str) -> Iterator[None]:
    """Everything inside, tasks started from it too, is done for this request."""
    token = _REQUEST.set(request_id)
    try:
        yield
    finally:
        _REQUEST.reset(token)


def request_id() -> str | None:
    """The id of the HTTP request under way; None over stdio and in the background."""
    return _REQUEST.get()
