"""The caller: set once per call at the edge, read below the tool layer."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mcp_server_qdrant.core.context import holding

SCOPES = READ, WRITE, ADMIN = "read", "write", "admin"  # each includes the ones before it

CALLER = "mcp_server_qdrant.caller"  # key of the ASGI scope, for work in other tasks


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated caller: the token's name, its scopes, and the claims that were verified."""

    name: str
    scopes: frozenset[str]
    claims: Mapping[str, Any] = field(default_factory=dict)


_CLIENT: ContextVar[tuple[str, str] | None] = ContextVar("client", default=None)
_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller | None:
    """The caller of the current call; None without authentication (stdio, AUTH_MODE=none)."""
    return _CALLER.get()


def calling(who: Caller | None) -> AbstractContextManager[None]:
    """Everything inside, tasks and threads started from it too, is done for `who`."""
    return holding(_CALLER, who)


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
