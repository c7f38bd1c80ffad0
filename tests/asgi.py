"""Sends a request to an ASGI application, message by message."""

import asyncio
from typing import Any


class Exchange:
    """A request whose body a test sends in parts, and its response."""

    def __init__(self, app: Any, method: str, path: str, **headers: str) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self._parts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"q=secret",
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()],
            "client": ("127.0.0.1", 5),
        }
        self.task = asyncio.ensure_future(app(self.scope, self._parts.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            self.body += message.get("body", b"")
            self.ended = not message.get("more_body", False)

    def send(self, body: bytes = b"", *, more: bool = False) -> None:
        """Send a part of the body, by default the last."""
        self._parts.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        """Disconnect the client."""
        self._parts.put_nowait({"type": "http.disconnect"})

    async def done(self) -> "Exchange":
        """Wait for the end of the response."""
        await self.task
        return self


async def turn() -> None:
    """Let other tasks run until they wait."""
    for _ in range(10):
        await asyncio.sleep(0)


class Work:
    """An application that reads its request and answers once `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive() if scope["method"] == "POST" else {"body": b""}
        self.bodies.append(message.get("body", b""))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await self.go.wait()
        await send({"type": "http.response.body", "body": b"done"})
