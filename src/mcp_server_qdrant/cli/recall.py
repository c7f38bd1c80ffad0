"""The command `recall`, for hooks: it waits for nobody, and imports next to nothing."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from mcp_server_qdrant.app.ask import recalled
from mcp_server_qdrant.core.errors import QdrantMcpError, contained

SECONDS = 0.7  # with the start of Python within a second


def run(folder: str) -> None:
    """Print what a running server recalls for the hook on stdin, and end the process; status 0."""
    with suppress(QdrantMcpError), contained():  # whatever is wrong, a client is not disturbed
        hook = json.loads(sys.stdin.buffer.read())
        text = recalled(Path(folder), hook, SECONDS)
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.flush()
    os._exit(0)  # nothing is left to be tidied up
