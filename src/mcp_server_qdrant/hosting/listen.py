"""The service's side of the private socket: authenticates clients and reads their hello line.

`pipe` is the client's side.
"""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from hmac import compare_digest
from pathlib import Path
from typing import Any

from mcp_server_qdrant.hosting.rendezvous import (
    NONCE,
    PROOF,
    PROTOCOL,
    Rendezvous,
    proof,
    socket_path,
)

LONGEST_LINE = 1 << 26  # bytes; a whole text to store is one line

Hear = Callable[[dict[str, Any], asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

logger = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def listen(place: Path, version: str, hear: Hear) -> AsyncIterator[Rendezvous]:
    """Listen and publish the address in the file `place`.

    `hear` gets each client's hello and its streams. Yields what was published. Raises OSError if
    no socket can be opened.
    """
    key = secrets.token_bytes(32)
    visits: set[asyncio.Task[None]] = set()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        visits.add(task)
        task.add_done_callback(visits.discard)
        try:
            with contextlib.suppress(OSError, EOFError, ValueError, asyncio.LimitOverrunError):
                if await _authenticate(reader, writer, key):
                    hello = json.loads(await reader.readuntil(b"\n"))
                    await hear(hello, reader, writer)
        finally:
            writer.close()

    Rendezvous.clear(place)
    if sys.platform == "win32":
        server = await asyncio.start_server(visit, "127.0.0.1", 0, limit=LONGEST_LINE)
        address = "{}:{}".format(*server.sockets[0].getsockname())
    else:
        address = socket_path()
        server = await asyncio.start_unix_server(visit, address, backlog=64, limit=LONGEST_LINE)
        os.chmod(address, 0o600)  # noqa: PTH101
    own = Rendezvous(address, key, os.getpid(), PROTOCOL, version)
    try:
        own.write(place)
        yield own
    finally:
        server.close()
        own.withdraw(place)
        if visits:
            await asyncio.wait(visits, timeout=1.0)


async def _authenticate(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes
) -> bool:
    """Authenticate both sides: each proves that it knows the key."""
    own = secrets.token_bytes(NONCE)
    writer.write(own)
    given = await reader.readexactly(PROOF)
    theirs = await reader.readexactly(NONCE)
    if not compare_digest(given, proof(key, b"client", own)):
        logger.warning("A client without the key was refused")
        return False
    writer.write(proof(key, b"host", theirs))
    return True
