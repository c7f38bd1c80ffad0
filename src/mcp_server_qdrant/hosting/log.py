"""What a host says, to be read by an operator."""

import contextlib
import sys
from datetime import UTC, datetime


def log(text: str) -> None:
    """One line in the host's log. On a full disk there is none, and who wrote it goes on."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}\n")
        sys.stderr.flush()
