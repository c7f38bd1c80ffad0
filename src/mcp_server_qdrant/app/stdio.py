"""The server over stdio: its lines, and a clean end."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import anyio
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.core.fields import BROKEN
from mcp_server_qdrant.core.notation import SURROGATE
from mcp_server_qdrant.settings.environment import Settings

# After the end of input: for the last line to become a call, and for the calls' answers.
LAST_LINE_SECONDS = 0.05
LAST_ANSWER_SECONDS = 30.0
BOM = "\ufeff"  # which some programs write before their first line
POLL_SECONDS = 1.0


def run(settings: Settings) -> None:
    """Serve until the client goes, or SIGINT or SIGTERM comes. Raises ConfigError."""
    try:
        anyio.run(_serve, settings)
    except* (BrokenPipeError, ConnectionResetError):
        pass  # the client went without waiting for its answer


async def _serve(settings: Settings) -> None:
    """The SDK's stdio loop, left cleanly on EOF and on signals.

    The SDK's own dies on SIGTERM without leaving its lifespan, and hangs on SIGINT: its reader
    thread cannot be interrupted, hence the exit on signals without waiting for it.
    """
    under_way: set[asyncio.Task[Any]] = set()
    mcp = make_server(settings, under_way=under_way)
    mcp.streamable_http_app()  # only then does the SDK hand out the server that it wraps
    server = mcp.session_manager.app

    async def refuse(error: types.JSONRPCError) -> None:
        await writer.send(SessionMessage(error))

    source = _input()
    stdin: Any = sound_lines(anyio.wrap_file(source), under_way, refuse)
    async with stdio_server(stdin) as (reader, writer), anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def watch() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    scope.cancel()
                    return

        async def watch_client() -> None:
            await _client_ended(source.fileno())
            await anyio.sleep(POLL_SECONDS)
            while under_way:  # what was sent before
                await asyncio.wait(under_way, timeout=LAST_ANSWER_SECONDS)
                await anyio.sleep(POLL_SECONDS)
            scope.cancel()

        group.start_soon(watch)
        group.start_soon(watch_client)
        with scope:
            await server.run(reader, writer, server.create_initialization_options())
        if scope.cancelled_caught:
            os._exit(0)
        group.cancel_scope.cancel()  # end of input: what was answered is still written


def _input() -> TextIO:
    """Standard input as UTF-8. Other code and child processes read nothing there from now on."""
    source = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return source


async def _client_ended(stdin: int) -> None:
    """Return once the client has ended, even if another process still holds its end of the pipe."""
    parent = os.getppid()
    try:
        handle = os.pidfd_open(_client(parent, stdin))
    except (AttributeError, OSError):  # not on Linux, or the client is in another container
        while os.getppid() == parent:  # noqa: ASYNC110  # nothing tells of a change
            await anyio.sleep(POLL_SECONDS)
        return
    try:
        await anyio.wait_readable(handle)
    finally:
        os.close(handle)


def _client(parent: int, stdin: int) -> int:
    """The process that started the server: the first ancestor with a standard input of its own.

    A launcher between them, such as a shell, shares the server's.
    """
    found = parent
    with suppress(OSError, ValueError):
        while os.path.samestat(Path(f"/proc/{found}/fd/0").stat(), os.fstat(stdin)):
            status = Path(f"/proc/{found}/stat").read_text("utf-8", "replace")
            found = int(status.rpartition(")")[2].split()[1])
    return found


async def sound_lines(
    lines: AsyncIterable[str],
    under_way: Collection[asyncio.Task[Any]],
    refuse: Callable[[types.JSONRPCError], Awaitable[None]],
) -> AsyncIterator[str]:
    """The lines that are messages, and at their end a wait for the calls under way.

    The SDK drops any other line without an answer, and the caller would wait for ever: these are
    refused. Lone surrogates are marked, so that the tool refuses them with a sentence.
    """
    async for line in lines:
        line = line.removeprefix(BOM)  # noqa: PLW2901
        line = mend(line) if "\\ud" in line or "\\uD" in line else line  # noqa: PLW2901
        if error := fault(line):
            await refuse(error)
        else:
            yield line
    await asyncio.sleep(LAST_LINE_SECONDS)
    if under_way:
        await asyncio.wait(under_way, timeout=LAST_ANSWER_SECONDS)


def fault(line: str) -> types.JSONRPCError | None:
    """The error that answers a line; None for a message, and for a blank line.

    It has the id of the request where that can be read.
    """
    if not line.strip():
        return None
    code, said = types.INVALID_REQUEST, "This is no message of JSON-RPC 2.0."
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        if not (isinstance(message, types.JSONRPCNotification) and "id" in json.loads(line)):
            return None
        said = "The id of a request must be a string or a whole number."
    except ValidationError as error:
        if error.errors(include_input=False)[0]["type"] == "json_invalid":
            code, said = types.PARSE_ERROR, "The line is not JSON, or is nested too deep."
    try:
        read = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, list):
        said = "Batches are not supported: send each message on a line of its own."
    own = read.get("id") if isinstance(read, dict) and "method" in read else None
    known = type(own) in (str, int) and str(own).isprintable()
    fault_data = types.ErrorData(code=code, message=said)
    return types.JSONRPCError(jsonrpc="2.0", id=own if known else None, error=fault_data)


def mend(line: str) -> str:
    """The same JSON with every lone surrogate replaced by the mark of broken text."""
    try:
        return SURROGATE.sub(BROKEN, json.dumps(json.loads(line), ensure_ascii=False)) + "\n"
    except (ValueError, RecursionError):
        return line
