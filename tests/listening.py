"""An ASGI application on a port of this machine, in this process."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import httpx2
import uvicorn
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp


@contextlib.asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    """Its address, while it serves."""
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
