"""What a caller may do: read, write, admin, each of which includes the ones before it."""

from collections.abc import Iterable

from mcp_server_qdrant.core.access import ADMIN, READ, WRITE

SCOPES = (READ, WRITE, ADMIN)


def granted(named: Iterable[str]) -> frozenset[str]:
    """The scopes that were named and those they include; names of other things are ignored."""
    reach = max((SCOPES.index(name) for name in named if name in SCOPES), default=-1)
    return frozenset(SCOPES[: reach + 1])
