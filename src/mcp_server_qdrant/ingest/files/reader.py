"""Reads files: plain text in this process, everything else in a child process that may fail.

A few hundred bytes can keep a parser busy for hours, exhaust the memory, or crash it. So all
parsers except the plain ones run in a child process, with limits derived from the file's size. A
file that exceeds them is reported as a problem.

The child is `python -m` this module. It reads a line of JSON with the size of a file, then the
file's bytes, from stdin, and answers with a line of JSON on stdout. It has no sockets, keys or
engine. It exits with its parent, or when a file exceeds its time or memory.
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
from zoneinfo import ZoneInfo

from mcp_server_qdrant.core.context import current_zone, use_zone
from mcp_server_qdrant.core.errors import Unforeseen, UnusableFile
from mcp_server_qdrant.ingest.formats.base import Contents
from mcp_server_qdrant.ingest.formats.load import format_of, load

try:
    import resource
except ImportError:  # Windows: only the time is limited
    resource = None  # type: ignore[assignment]

MB = 1_000_000
LARGE = 20 * MB  # the child exits after a file of this size, to free its memory
PATIENCE = 5  # wall time allowed, as a multiple of the processor time
DEPTH = 10_000  # recursion limit; Python's default is too low for some pages
MODULE = "mcp_server_qdrant.ingest.files.reader"
PR_SET_PDEATHSIG = 1
UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in the unit of ru_maxrss


@cache
def _answer_type() -> Any:
    """The child's answer: texts, or a reason and whether stored texts are kept."""
    from pydantic import TypeAdapter  # slow to import, and not needed in the child

    return TypeAdapter(Contents | tuple[str, bool])


class Reader:
    """Reads one file at a time, and starts the child process when it is first needed.

    The limits per file are `seconds` of processor time, bytes of `memory`, and bytes of the JSON
    `answer`; each MB of the file adds 1 s, 10 MB and 10 MB.
    """

    def __init__(
        self, *, seconds: int = 60, memory: int = 1000 * MB, answer: int = 100 * MB
    ) -> None:
        self._limits = seconds, memory, answer
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def load(self, path: str, data: bytes, *, mask: bool = True) -> Contents:
        """The texts of a file; see `formats.load.load`.

        Raises UnusableFile, also if the file exceeds a limit or crashes the child.
        """
        if not data or format_of(path, data).plain:
            return load(path, data, mask=mask)
        answer = self._request(path, data, mask=mask)
        if len(data) > LARGE:
            self._end()
        found = _answer_type().validate_json(answer)
        if isinstance(found, Contents):
            return found
        raise UnusableFile(found[0], keep_texts=found[1])

    def close(self) -> None:
        """Kill the child, even while another thread waits for it."""
        self._closed = True
        self._end()

    def _request(self, path: str, data: bytes, *, mask: bool) -> bytes:
        """The child's answer as JSON. Raises UnusableFile if there is none."""
        size = len(data)
        seconds, memory, most = self._limits
        seconds, memory, most = seconds + size // MB, memory + 10 * size, most + 10 * size
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        late = Timer(PATIENCE * seconds, process.kill)
        late.start()
        try:
            zone = getattr(current_zone(), "key", None)
            asked = json.dumps([path, size, mask, zone, seconds, memory])
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
            raise UnusableFile(f"holds more than {most // MB:,} MB of text", keep_texts=True)
        raise UnusableFile(
            f"takes more than {seconds:,} s or {memory // MB:,} MB of memory to read, or crashes "
            "the process that reads it",
            keep_texts=True,
        )

    def _start(self) -> "subprocess.Popen[bytes]":
        """The child process, started if need be."""
        if self._closed:
            raise UnusableFile("was not read, because the run ended", keep_texts=True)
        if self._process is None:
            # Pass the module path only: the environment contains keys.
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
    """Answer requests until stdin is closed."""
    sys.setrecursionlimit(DEPTH)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # output of libraries must not mix with answers
    limits = {"memory": math.inf}
    Thread(target=_watch, args=(limits, os.getppid()), daemon=True).start()
    while asked := sys.stdin.buffer.readline():
        path, size, mask, zone, seconds, memory = json.loads(asked)
        use_zone(ZoneInfo(zone) if zone else None)
        data = sys.stdin.buffer.read(size)
        limits["memory"] = memory
        _limit(seconds, memory)
        try:
            answers.write(_load(path, data, mask=mask) + b"\n")
        except MemoryError:
            os._exit(1)
        answers.flush()


def _watch(limits: dict[str, float], parent: int) -> None:
    """Exit when the parent is gone, even while a file is read, or when memory is exceeded.

    macOS does not enforce the memory limit itself.
    """
    if resource is None:
        return
    if sys.platform == "linux":  # at once, even while a library holds the GIL
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    start = _memory()  # on Linux this is inherited from the parent
    while _memory() - start < limits["memory"] and os.getppid() == parent:
        time.sleep(0.05)
    os._exit(1)


def _memory() -> int:
    """The peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT


def _limit(seconds: int, memory: int) -> None:
    """Limit the further processor time and the memory of this process."""
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


def _load(path: str, data: bytes, *, mask: bool) -> bytes:
    """The texts of a file, or why there are none and whether stored texts are kept, as JSON."""
    found: dict[str, Any] | tuple[str, bool]
    try:
        found = asdict(load(path, data, mask=mask))
    except (UnusableFile, Unforeseen) as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from error
        unforeseen = isinstance(error, Unforeseen)
        found = (f"cannot be read: {error}", True) if unforeseen else (str(error), False)
    return json.dumps(found, ensure_ascii=False, default=datetime.isoformat).encode(
        errors="replace"
    )


if __name__ == "__main__":
    main()
