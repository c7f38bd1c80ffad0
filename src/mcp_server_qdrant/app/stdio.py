"""The server over stdio: its lines, and a clean end.

Pipes are read and written on the event loop. The SDK has each line read by a thread and each answer
written by two, which is a twentieth of a find.
"""

import asyncio
import contextlib
import io
import json
import os
import re
import select
import signal
import stat
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import anyio
from mcp.server.stdio import stdio_server

from mcp_server_qdrant.app.server import Calls, make_server
from mcp_server_qdrant.core.fields import BROKEN
from mcp_server_qdrant.settings.environment import Settings

# After the end of input: for the last line to become a call, and for the calls' answers.
LAST_LINE_SECONDS = 0.05
LAST_ANSWER_SECONDS = 30.0
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
PIECE = 65_536  # bytes read at once


def run(settings: Settings) -> None:
    """Serve until the client goes, or SIGINT or SIGTERM comes."""
    try:
        anyio.run(_serve, settings)
    except* (BrokenPipeError, ConnectionResetError):
        pass  # the client went without waiting for its answer


async def _serve(settings: Settings) -> None:
    """The SDK's stdio loop, left cleanly on EOF and on signals.

    The SDK's own dies on SIGTERM without leaving its lifespan, and hangs on SIGINT: its reader
    thread cannot be interrupted, hence the exit on signals without waiting for it.
    """
    calls = Calls()
    server = make_server(settings, calls=calls)._lowlevel_server  # noqa: SLF001
    lines, answers = _streams()
    stdin: Any = SoundLines(lines, calls)
    async with stdio_server(stdin, answers) as (reader, writer), anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def watch() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    scope.cancel()
                    return

        group.start_soon(watch)
        with scope:
            await server.run(reader, writer, server.create_initialization_options())
        if scope.cancelled_caught:
            os._exit(0)
        group.cancel_scope.cancel()  # end of input: what was answered is still written


def _streams() -> tuple[AsyncIterable[str], Any]:
    """The lines that come, and where answers go; None leaves that to the SDK.

    While serving, what prints to stdout reaches stderr, and nobody else reads stdin.
    """
    if sys.platform == "win32" or not all(map(_is_pipe, (0, 1))):
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        return anyio.wrap_file(sys.stdin), None
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with contextlib.suppress(OSError):  # there may be no stderr
        os.dup2(2, 1)
    return Lines(source), Answers(target)


def _is_pipe(number: int) -> bool:
    mode = os.fstat(number).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class Lines:
    """The lines that come through a pipe or socket; the last one may lack its end."""

    def __init__(self, number: int) -> None:
        self._number = number

    async def __aiter__(self) -> AsyncIterator[str]:
        """The lines, without their ends; what is not UTF-8 is replaced."""
        kept: list[bytes] = []
        while piece := await self._piece():
            *whole, begun = piece.split(b"\n")
            for part in whole:
                kept.append(part)
                yield _text(kept)
                kept = []
            kept.append(begun)
        if any(kept):
            yield _text(kept)

    async def _piece(self) -> bytes:
        loop = asyncio.get_running_loop()
        await _until(self._number, loop.add_reader, loop.remove_reader)
        try:
            return os.read(self._number, PIECE)
        except ConnectionResetError:
            return b""


def _text(parts: list[bytes]) -> str:
    return b"".join(parts).decode(errors="replace")


class Answers:
    """Writes to a pipe or socket. A client that does not read holds up its answers, nothing else.

    What the system calls writable takes `PIPE_BUF` bytes without waiting.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    async def write(self, text: str) -> None:
        """All of it. Raises BrokenPipeError where the client has gone."""
        left = memoryview(text.encode())
        loop = asyncio.get_running_loop()
        while left:
            if not select.select([], [self._number], [], 0)[1]:
                await _until(self._number, loop.add_writer, loop.remove_writer)
            left = left[os.write(self._number, left[: select.PIPE_BUF]) :]

    async def flush(self) -> None:
        """Everything is written already."""


async def _until(number: int, watch: Callable[..., None], leave: Callable[[int], bool]) -> None:
    """Until it can be read, or written."""
    ready = asyncio.get_running_loop().create_future()

    def now() -> None:
        if not ready.done():
            ready.set_result(None)

    watch(number, now)
    try:
        await ready
    finally:
        leave(number)


class SoundLines:
    """Lines of JSON without lone surrogates.

    The SDK's parser refuses them and drops the message: the caller would wait for ever. Marked,
    they reach the tool, which refuses them with a sentence.
    """

    def __init__(self, lines: AsyncIterable[str], calls: Calls) -> None:
        self._lines = lines
        self._calls = calls

    async def __aiter__(self) -> AsyncIterator[str]:
        """The lines, mended where needed."""
        async for line in self._lines:
            yield mend(line) if "\\ud" in line or "\\uD" in line else line
        await asyncio.sleep(LAST_LINE_SECONDS)
        await self._calls.finish(LAST_ANSWER_SECONDS)


def mend(line: str) -> str:
    """The same JSON with every lone surrogate replaced by the mark of broken text."""
    try:
        return LONE_SURROGATE.sub(BROKEN, json.dumps(json.loads(line), ensure_ascii=False)) + "\n"
    except ValueError:
        return line
