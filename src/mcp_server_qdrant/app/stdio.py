"""The server over stdio without a service: it runs in the process that the client starts."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import anyio

from mcp_server_qdrant.app.process import HERE, Process
from mcp_server_qdrant.app.server import SharedServer
from mcp_server_qdrant.app.session import converse
from mcp_server_qdrant.core.context import in_folder
from mcp_server_qdrant.hosting.pipe import await_client_end, client_handle
from mcp_server_qdrant.settings.environment import Settings


def run(settings: Settings, folder: Path | None) -> None:
    """Serve until the client exits, or SIGINT or SIGTERM. Raises ConfigError."""
    with suppress(BrokenPipeError, ConnectionResetError):  # the client closed its end early
        asyncio.run(_serve(settings, folder))


async def _serve(settings: Settings, folder: Path | None) -> None:
    process = Process(settings)
    HERE.set(process)
    source, output = _streams()

    async def write(line: str) -> None:
        await asyncio.to_thread(output.write, line)

    with in_folder(folder):
        talk = asyncio.create_task(
            converse(SharedServer(settings).server, _lines(source), write, set())
        )
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, stopped.set)
    parent = os.getppid()
    client = client_handle(parent, source.fileno())
    gone = asyncio.create_task(asyncio.to_thread(await_client_end, parent, client))
    stop = asyncio.create_task(stopped.wait())
    await asyncio.wait([talk, gone, stop], return_when=asyncio.FIRST_COMPLETED)
    os._exit(0)  # threads may block in a read


async def _lines(source: TextIO) -> AsyncIterator[str]:
    async for line in anyio.wrap_file(source):
        yield line


def _streams() -> tuple[TextIO, TextIO]:
    """Standard input and output as UTF-8; other code gets /dev/null and stderr instead."""
    source = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(sys.stderr.fileno(), 1)
    return source, output
