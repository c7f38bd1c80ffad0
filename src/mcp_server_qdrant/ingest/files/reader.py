"""Reads files: plain text here, everything else in a process that may fail.

A few hundred bytes can keep a parser busy for hours, or make it take all memory, or crash it. So
one rule holds for all formats but the plain ones: the parser runs in a process, within limits that
follow from the size of the file. What breaks them is that file's problem.

The process is `python -m` this file. On its stdin there comes a line of JSON, with the size of a
file, and the file's bytes; on stdout a line of JSON goes back. It has no sockets, no keys and no
engine. It ends with its parent, and when a file takes more time or memory than it may.
"""

import contextlib
import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import datetime
from functools import cache
from threading import Thread, Timer
from typing import Any

from mcp_server_qdrant.core.errors import Unforeseen, UnusableFile
from mcp_server_qdrant.ingest.formats.base import Contents
from mcp_server_qdrant.ingest.formats.load import format_of, load

try:
    import resource
except ImportError:  # Windows: only the time is limited
    resource = None  # type: ignore[assignment]

MB = 1_000_000
LARGE = 20 * MB  # what such a file leaves in memory is given back
PATIENCE = 5  # times the processor time that a file may take: others use the processor too
DEPTH = 10_000  # of calls; Python's own limit would refuse pages as deep as some are
MODULE = "mcp_server_qdrant.ingest.files.reader"
PR_SET_PDEATHSIG = 1
UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in the unit of ru_maxrss


@cache
def _answers() -> Any:
    """What the process says: the texts, or a reason and whether the earlier ones are kept."""
    from pydantic import TypeAdapter  # too much for the process

    return TypeAdapter(Contents | tuple[str, bool])


class Reader:
    """Reads one file at a time, and starts the process when the first one needs it.

    `seconds` of processor time and bytes of `memory` are what it may take to read a file, `answer`
    the bytes of its texts as JSON; each MB of the file adds 1 s, 10 MB and 10 MB.
    """

    def __init__(
        self, *, seconds: int = 60, memory: int = 1000 * MB, answer: int = 100 * MB
    ) -> None:
        self._limits = seconds, memory, answer
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def load(self, path: str, data: bytes, *, mask: bool = True) -> Contents:
        """The texts of a file, as `formats.load.load` has them.

        Raises UnusableFile, also where it breaks a limit or the process.
        """
        if not data or format_of(path, data).plain:
            return load(path, data, mask=mask)
        answer = self._asked(path, data, mask=mask)
        if len(data) > LARGE:
            self._end()
        found = _answers().validate_json(answer)
        if isinstance(found, Contents):
            return found
        reason, kept = found
        raise UnusableFile(reason, kept=kept)

    def close(self) -> None:
        """End the process, also while it reads in another thread."""
        self._closed = True
        self._end()

    def _asked(self, path: str, data: bytes, *, mask: bool) -> bytes:
        """The answer of the process. Raises UnusableFile where there is none."""
        size = len(data)
        seconds, memory, most = self._limits
        seconds, memory, most = seconds + size // MB, memory + 10 * size, most + 10 * size
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        late = Timer(PATIENCE * seconds, process.kill)
        late.start()
        try:
            asked = json.dumps([path, size, mask, seconds, memory])
            process.stdin.write(asked.encode() + b"\n")
            process.stdin.write(data)
            process.stdin.flush()
            answer = process.stdout.readline(most)
        except OSError:
            answer = b""
        finally:
            late.cancel()
        if answer.endswith(b"\n"):
            return answer
        self._end()
        if len(answer) == most:
            raise UnusableFile(f"holds more than {most // MB:,} MB of text", kept=True)
        raise UnusableFile(
            f"takes more than {seconds:,} s or {memory // MB:,} MB of memory to read, or crashes "
            "the process that reads it",
            kept=True,
        )

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise UnusableFile("is not read any more: the run has ended", kept=True)
        if self._process is None:
            # Modules are found as here. Nothing else of the environment goes along: it holds keys.
            given = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            if sys.platform == "win32":
                given["SYSTEMROOT"] = os.path.expandvars("%SYSTEMROOT%")
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE],
                cwd=os.sep,
                env=given,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError), process:
                process.kill()


def main() -> None:
    """Answer until the other side has gone."""
    sys.setrecursionlimit(DEPTH)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    limits = {"memory": math.inf}
    Thread(target=_watch, args=(limits, os.getppid()), daemon=True).start()
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


def _watch(limits: dict[str, float], parent: int) -> None:
    """End the process when its parent has gone, also while it reads a file.

    And when it takes too much memory: macOS does not keep the limit itself.
    """
    if resource is None:
        return
    if sys.platform == "linux":  # at once, also while a library lets no thread of Python run
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    start = _memory()  # on Linux the most that its parent had
    while _memory() - start < limits["memory"] and os.getppid() == parent:
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
    return value.isoformat() if isinstance(value, datetime) else asdict(value)


if __name__ == "__main__":
    main()
