"""Local servers, in this process or a separate one, and their clients."""

import asyncio
import contextlib
import socket
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import uvicorn
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp

from mcp_server_qdrant.http.auth.tokens import add_token, digest, new_token


@contextlib.asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    """Serve, and yield the address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        )
        task = asyncio.create_task(server.serve([bound]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_answer(address: str, process: subprocess.Popen) -> None:
    """Wait until the server of that process answers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr and process.stderr.read()
        with contextlib.suppress(OSError):  # not listening yet, or importing under load
            urllib.request.urlopen(f"{address}/healthz", timeout=5).close()
            return
        time.sleep(0.02)  # polling without a pause would slow the start down
    raise AssertionError("the server did not answer")


def make_tokens(file: Path, **scopes: str) -> dict[str, str]:
    """Write a token file: name -> a new token with that scope."""
    tokens = {name: new_token() for name in scopes}
    for name, token in tokens.items():
        add_token(file, {"name": name, "sha256": digest(token), "scopes": [scopes[name]]})
    return tokens


@contextlib.asynccontextmanager
async def client_of(
    address: str, token: str, *, path: str = "/mcp", mode: str = "auto"
) -> AsyncIterator[Client]:
    """An MCP client that sends this token; `path` /sse chooses the older transport."""
    headers = {"Authorization": f"Bearer {token}"}
    if path == "/sse":
        async with Client(sse_client(address + path, headers), mode=mode) as client:
            yield client
        return
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        target = streamable_http_client(address + path, http_client=http)
        async with Client(target, mode=mode) as client:
            yield client
