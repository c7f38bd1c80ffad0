"""A bare MCP client over streamable-http on one kept connection: no client library's cost.

Era "modern" is protocol 2026-07-28, without sessions; "legacy" is 2025-06-18, with one.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

MODERN, LEGACY = "2026-07-28", "2025-06-18"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class Caller:
    """One client. A call's answer is the HTTP status and the tool's result, None without one."""

    def __init__(self, port: int, era: str = "modern", token: str | None = None) -> None:
        self.port = port
        self.token = token
        self.era = era
        self.session: str | None = None
        self._number = 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Say hello where the era has it."""
        if self.era == "legacy":
            status, headers, _ = await self._post("initialize", HELLO, {})
            assert status == 200, status
            self.session = headers["mcp-session-id"]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[int, dict | None]:
        """Call a tool."""
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        headers = {"Mcp-Method": "tools/call", "Mcp-Name": tool, "MCP-Protocol-Version": MODERN}
        if self.era == "modern":
            params["_meta"] = META
        else:
            headers = {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": self.session or ""}
        status, _, body = await self._post("tools/call", params, headers)
        return status, body.get("result") if body else None

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a page."""
        status, _, raw = await self._exchange(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode()
        )
        return status, raw

    async def reachable(self, path: str) -> None:
        """Wait until a page is there, at most a minute. Raises TimeoutError."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with suppress(OSError, EOFError):
                if (await self.get(path))[0] == 200:
                    return
            await self.close()
            await asyncio.sleep(0.1)
        raise TimeoutError("the server did not become ready")

    async def close(self) -> None:
        """Let the connection go."""
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None

    async def _post(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], dict[str, Any] | None]:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        if self.token:
            headers = {**headers, "Authorization": f"Bearer {self.token}"}
        body = json.dumps(message).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        status, answered, raw = await self._exchange(
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{head}\r\n".encode()
            + body
        )
        if status != 200:
            return status, answered, None
        if answered.get("content-type", "").startswith("text/event-stream"):
            lines = raw.decode().splitlines()
            raw = next(one[6:] for one in lines if one.startswith("data: {")).encode()
        return status, answered, json.loads(raw)

    async def _exchange(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)
        }
        if headers.get("transfer-encoding") == "chunked":
            body = b"".join([part async for part in self._chunks(self._reader)])
        else:
            body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection") == "close":
            await self.close()
        return int(first.split()[1]), headers, body

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> Any:
        while size := int(await reader.readline(), 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
