"""Asking a running server what to recall. Imports little: the hook of a client waits for it."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from mcp_server_qdrant.hosting.rendezvous import Foreign, Rendezvous, ask

WIRE = 3
DIAL_SECONDS = 0.4
NAME = "recall-{}.json"  # by process


def recalled(folder: Path, hook: Mapping[str, Any], seconds: float) -> str:
    """What a server of that folder tells a hook; "" where none is there, or none in time.

    The one that has run longest is asked first: it knows what it told a session.
    """
    until = monotonic() + seconds
    found = ((path, Rendezvous.read(path)) for path in folder.glob(NAME.format("*")))
    for path, server in sorted(found, key=lambda one: _since(one[0])):
        left = until - monotonic()
        if server is None or left <= 0:
            continue
        try:
            line = server.dial(WIRE, min(DIAL_SECONDS, left))
        except (TimeoutError, Foreign):
            continue
        if line is None:  # it was killed
            path.unlink(missing_ok=True)
        elif isinstance(text := ask(line, max(until - monotonic(), 0.0), "recall", hook), str):
            return text
    return ""


def _since(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
