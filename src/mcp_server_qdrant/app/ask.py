"""Asking a running server what to recall. Imports little: the hook of a client waits for it."""

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from mcp_server_qdrant.hosting.wire import Rendezvous, ask

WIRE = 4
DIAL_SECONDS = 0.4
NAME = "recall-{}.json"  # by process


def recalled(folder: Path, hook: Mapping[str, Any], seconds: float) -> str:
    """What a server of that folder tells a hook; "" where none is there, or none in time.

    They are asked in one order: the first of them knows what it told a session.
    """
    until = monotonic() + seconds
    said = {name: one for name, one in hook.items() if isinstance(one, str)}
    for path in sorted(folder.glob(NAME.format("*"))):
        server, left = Rendezvous.read(path), until - monotonic()
        if server is None or server.wire != WIRE or left <= 0:
            continue
        try:
            line = server.dial(min(DIAL_SECONDS, left))
        except TimeoutError:
            continue
        if line is None:  # it was killed
            server.withdraw(path)
        elif isinstance(text := ask(line, max(until - monotonic(), 0.0), "recall", said), str):
            return text
    return ""
