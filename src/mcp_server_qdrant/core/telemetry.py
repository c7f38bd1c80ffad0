"""Measurements of a call in progress; there are none until a server asks for them."""

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from mcp_server_qdrant.core.context import holding
from mcp_server_qdrant.core.datatypes import Status

Phase = Literal["embed", "probe", "retrieve", "rank", "rerank"]
PHASES: tuple[Phase, ...] = ("embed", "probe", "retrieve", "rank", "rerank")
Answer = Literal["found", "weak", "empty"]
ANSWERS: tuple[Answer, ...] = ("found", "weak", "empty")
Outcome = Literal["ok", "rejected", "failed", "crashed", "cancelled"]

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


class Recorder:
    """A record of the phases and outcomes of searches; this one keeps nothing."""

    def phase(self, name: Phase) -> AbstractContextManager[object]:  # noqa: ARG002
        """Everything inside is this phase of the search."""
        return nullcontext()

    def fared(self, statuses: Iterable[Status]) -> None:
        """Record the outcome of a search in each collection."""

    def answered(self, answer: Answer, *, corrected: bool) -> None:
        """Record whether a query found something, and whether its spelling was corrected."""


_SILENT = Recorder()
_RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


def recording(recorder: Recorder) -> AbstractContextManager[None]:
    """Searches inside, tasks started from it too, are told to `recorder`."""
    return holding(_RECORDER, recorder)


def recorder() -> Recorder:
    """What the search under way is told to."""
    return _RECORDER.get() or _SILENT


@dataclass(slots=True)
class Call:
    """The tool call under way; `outcome` is filled in where its failure is known best."""

    tool: str
    outcome: Outcome | None = None


_CALL: ContextVar[Call | None] = ContextVar("call", default=None)
_REQUEST: ContextVar[str | None] = ContextVar("request_id", default=None)


def within_call(call: Call) -> AbstractContextManager[None]:
    """Everything inside is this call."""
    return holding(_CALL, call)


def record_outcome(outcome: Outcome) -> None:
    """Record the outcome of the current call, if calls are measured."""
    call = _CALL.get()
    if call is not None:
        call.outcome = outcome


def sane_id(given: str | None) -> str | None:
    """A request id that a client may have made up, if it can be logged and returned as it is."""
    return given if given and _SANE_ID.fullmatch(given) else None


def within_request(request_id: str) -> AbstractContextManager[None]:
    """Everything inside, tasks started from it too, is done for this request."""
    return holding(_REQUEST, request_id)


def request_id() -> str | None:
    """The id of the HTTP request under way; None over stdio and in the background."""
    return _REQUEST.get()
