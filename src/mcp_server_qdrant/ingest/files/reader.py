"""Reads files: plain text here, everything else in a process that may fail.

A few hundred bytes can keep a parser busy for hours, or make it take all memory, or crash it. So
one rule holds for all formats but the plain ones: the parser runs in `worker.py`, within limits
that follow from the size of the file. What breaks them is that file's problem.
"""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from threading import Timer

from pydantic import TypeAdapter

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.files import worker
from mcp_server_qdrant.ingest.formats.base import Contents
from mcp_server_qdrant.ingest.formats.load import format_of, load

MB = 1_000_000
LARGE = 20 * MB  # what such a file leaves in memory is given back
PATIENCE = 5  # times the processor time that a file may take: others use the processor too


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading a file may take, each with an addition per byte of the file.

    `seconds` are of processor time, `memory` and `answer` are bytes: of the process, and of the
    texts as JSON.
    """

    seconds: int = 60
    memory: int = 1000 * MB
    answer: int = 100 * MB

    def of(self, size: int) -> "Limits":
        """The limits for a file of this size."""
        return Limits(self.seconds + size // MB, self.memory + 10 * size, self.answer + 10 * size)


@cache
def _answers() -> TypeAdapter[Contents | tuple[str, bool]]:
    """What the process says: the texts, or a reason and whether the earlier ones are kept."""
    return TypeAdapter(Contents | tuple[str, bool])


class Reader:
    """Reads one file at a time, and starts the process when the first one needs it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def load(self, path: str, data: bytes, *, mask: bool = True) -> Contents:
        """The texts of a file, as `formats.load.load` has them.

        Raises UnusableFile, also where it breaks a limit or the process.
        """
        if not data or format_of(path, data).plain:
            return load(path, data, mask=mask)
        answer = self._asked(path, data, self._limits.of(len(data)), mask=mask)
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

    def _asked(self, path: str, data: bytes, limits: Limits, *, mask: bool) -> bytes:
        """The answer of the process. Raises UnusableFile where there is none."""
        fault = (
            f"takes more than {limits.seconds:,} s or {limits.memory // MB:,} MB of memory to "
            "read, or crashes the process that reads it"
        )
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        late = Timer(PATIENCE * limits.seconds, process.kill)
        late.start()
        try:
            asked = json.dumps([path, len(data), mask, limits.seconds, limits.memory])
            process.stdin.write(asked.encode() + b"\n")
            process.stdin.write(data)
            process.stdin.flush()
            answer = process.stdout.readline(limits.answer)
        except OSError:
            answer = b""
        finally:
            late.cancel()
        if answer.endswith(b"\n"):
            return answer
        self._end()
        if len(answer) == limits.answer:
            fault = f"holds more than {limits.answer // MB:,} MB of text"
        raise UnusableFile(fault, kept=True)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise UnusableFile("is not read any more: the run has ended", kept=True)
        if self._process is None:
            # Modules are found as here. Nothing else of the environment goes along: it holds keys.
            given = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            if sys.platform == "win32":
                given["SYSTEMROOT"] = os.path.expandvars("%SYSTEMROOT%")
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", worker.__name__],
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
