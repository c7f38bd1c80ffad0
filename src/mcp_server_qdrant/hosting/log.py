"""The log of a host, for an operator."""

import contextlib
import sys
from datetime import UTC, datetime


def log(text: str) -> None:
    """Write one line to the host's log; on a full disk none, and the host goes on."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}\n")
        sys.stderr.flush()
