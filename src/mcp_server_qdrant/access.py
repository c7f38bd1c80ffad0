"""Who is calling: set once per call at the edge, read below the tool layer."""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

READ, WRITE, ADMIN = "read", "write", "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated caller: the token's name, its scopes, and the claims that were verified."""

    name: str
    scopes: frozenset[str]
    claims: Mapping[str, Any] = field(default_factory=dict)


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller | None:
    """Who makes the call under way; None where nobody had to say so (stdio, AUTH_MODE=none)."""
    return _CALLER.get()


@contextlib.contextmanager
def calling(who: Caller | None) -> Iterator[None]:
    """Everything inside, tasks and threads started from it too, is done for `who`."""
    token = _CALLER.set(who)
    try:
        yield
    finally:
        _CALLER.reset(token)
