"""One conversation with a client, over any stream of lines, and its pending calls."""

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from mcp_server_qdrant.app.server import UNDER_WAY
from mcp_server_qdrant.core.context import binding
from mcp_server_qdrant.core.fields import BROKEN
from mcp_server_qdrant.core.notation import SURROGATE

# Waits after the end of input: for the last line to become a call, and for pending answers.
LAST_LINE_SECONDS = 0.05
LAST_ANSWER_SECONDS = 30.0
BOM = "\ufeff"  # some programs write it before their first line

Write = Callable[[str], Awaitable[None]]


class _Output:
    """The output stream that the SDK writes to."""

    def __init__(self, write: Write) -> None:
        self.write = write

    async def flush(self) -> None:
        """Do nothing: `write` sends each message at once."""


async def converse(
    server: Server[Any], lines: AsyncIterable[str], write: Write, under_way: set[asyncio.Task[Any]]
) -> None:
    """Answer a client's lines until they end, then wait for the calls `under_way`."""

    async def refuse(error: types.JSONRPCError) -> None:
        await writer.send(SessionMessage(error))

    read: Any = sound_lines(lines, under_way, refuse)
    output: Any = _Output(write)
    with binding(UNDER_WAY, under_way):
        async with stdio_server(read, output) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())


async def sound_lines(
    lines: AsyncIterable[str],
    under_way: Collection[asyncio.Task[Any]],
    refuse: Callable[[types.JSONRPCError], Awaitable[None]],
) -> AsyncIterator[str]:
    """The lines that are valid messages; at the end, wait for pending calls.

    Invalid lines are answered with an error: the SDK drops them silently, and the caller would wait
    for ever. Lone surrogates are replaced by a mark, which the tools refuse with a sentence.
    """
    async for line in lines:
        line = line.removeprefix(BOM)  # noqa: PLW2901
        line = mark_surrogates(line) if "\\ud" in line or "\\uD" in line else line  # noqa: PLW2901
        if error := line_error(line):
            await refuse(error)
        else:
            yield line
    await asyncio.sleep(LAST_LINE_SECONDS)
    if under_way:
        await asyncio.wait(under_way, timeout=LAST_ANSWER_SECONDS)


def line_error(line: str) -> types.JSONRPCError | None:
    """The error for an invalid line; None for a valid message or a blank line.

    It has the request's id, if that can be read.
    """
    if not line.strip():
        return None
    code, said = types.INVALID_REQUEST, "This is not a JSON-RPC 2.0 message."
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


def mark_surrogates(line: str) -> str:
    """The same JSON, each lone surrogate replaced by the mark for broken text."""
    try:
        return SURROGATE.sub(BROKEN, json.dumps(json.loads(line), ensure_ascii=False)) + "\n"
    except (ValueError, RecursionError):
        return line
