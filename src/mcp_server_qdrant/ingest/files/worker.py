"""Reads files for another process: `python -m mcp_server_qdrant.ingest.files.worker`.

On stdin there comes a line of JSON, with the size of a file, and the file's bytes; on stdout a line
of JSON goes back. It has no sockets, no keys and no engine. It ends with its input, and when a file
takes more time or memory than it may.
"""

import contextlib
import json
import math
import os
import sys
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.errors import Unforeseen, UnusableFile
from mcp_server_qdrant.ingest.formats.load import load

if TYPE_CHECKING:
    from mcp_server_qdrant.ingest.formats.base import Contents

try:
    import resource
except ImportError:  # Windows: the other side looks at the clock
    resource = None  # type: ignore[assignment]

DEPTH = 10_000  # of calls; Python's own limit would refuse pages as deep as some are
UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in the unit of ru_maxrss


def main() -> None:
    """Answer until the other side has gone."""
    sys.setrecursionlimit(DEPTH)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    limits = {"memory": math.inf}
    threading.Thread(target=_watch, args=(limits,), daemon=True).start()
    while asked := sys.stdin.buffer.readline():
        path, size, mask, seconds, memory = json.loads(asked)
        data = sys.stdin.buffer.read(size)
        limits["memory"] = memory
        _limit(seconds, memory)
        try:
            answers.write(_answer(path, data, mask=mask) + b"\n")
        except MemoryError:
            os._exit(1)
        answers.flush()


def _watch(limits: dict[str, float]) -> None:
    """End the process when it takes too much memory: macOS does not keep the limit itself."""
    if resource is None:
        return
    start = _memory()  # on Linux the most that its parent had
    while _memory() - start < limits["memory"]:
        time.sleep(0.05)
    os._exit(1)


def _memory() -> int:
    """The most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT


def _limit(seconds: int, memory: int) -> None:
    """Let the system end this process after so many seconds more, and refuse it more memory."""
    if resource is None:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = math.ceil(used.ru_utime + used.ru_stime) + seconds
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, until),
        (resource.RLIMIT_AS, memory),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


def _answer(path: str, data: bytes, *, mask: bool) -> bytes:
    """The texts of a file; or why there are none, and whether the earlier ones are kept."""
    found: Contents | tuple[str, bool]
    try:
        found = load(path, data, mask=mask)
    except (UnusableFile, Unforeseen) as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from error
        unforeseen = isinstance(error, Unforeseen)
        found = (f"cannot be read: {error}", True) if unforeseen else (str(error), False)
    return json.dumps(found, ensure_ascii=False, default=_plain).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    """A value that JSON has not."""
    if isinstance(value, datetime):
        return value.isoformat()
    return {name: getattr(value, name) for name in value.__slots__}


if __name__ == "__main__":
    main()
