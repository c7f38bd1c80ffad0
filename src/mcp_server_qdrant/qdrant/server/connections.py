"""Requests to an HTTP/1.1 server over connections that stay open; answers of a bounded size.

Under the same bodies, their answers parsed, aiohttp takes 1.7 to 2 times the processor time of a
search's requests, httpcore and httpx 5 times for one collection and 20 for many.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

import httptools
import httpx

from mcp_server_qdrant.core.bounded import PLAIN, TooLarge, bounded

AT_ONCE = 16  # more are no help to a server
SLOW = 0.05  # seconds after which a request no longer counts among those
LARGEST = 10_000_000  # bytes of an answer; as text each may take four more
LONGEST_HEAD = 100_000  # bytes, as httpx has it
NEXT_ADDRESS = 0.25  # seconds before another address of the host is tried too
_PORTS = {"http": 80, "https": 443}
_SIZED = {b"content-length", b"transfer-encoding"}


class Response(NamedTuple):
    """An answer as it came."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    content: bytes


class Http:
    """The connections to one server. A slow request keeps no other waiting."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        host = parts.netloc.removesuffix(f":{_PORTS[parts.scheme]}")
        named = {"host": host, "content-type": "application/json", **headers}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in named.items()).encode()
        self._secure = parts.scheme == "https"
        self._tls: Any = None
        self._idle: list[_Connection] = []
        self._all: WeakSet[_Connection] = WeakSet()
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def ask(self, target: str, body: bytes | None) -> Response:
        """The answer to a POST, or without a body to a GET. Raises OSError and TooLarge."""
        if body is None:
            request = b"GET %s HTTP/1.1\r\n%s\r\n" % (target.encode(), self._headers)
        else:
            head = b"POST %s HTTP/1.1\r\n%scontent-length: %d\r\n\r\n"
            request = head % (target.encode(), self._headers, len(body)) + body
        async with _Turn(self._gate):
            connection = self._free() or await self._opened()
            try:
                return await connection.send(request)
            finally:
                if connection.ready:  # also where nobody waits for the answer any more as it comes
                    self._idle.append(connection)
                else:
                    connection.abort()  # nobody must get the answer to this request

    def _free(self) -> "_Connection | None":
        """The connection used last of those that are free."""
        while self._idle:
            if (free := self._idle.pop()).ready:
                return free
        return None

    async def _opened(self) -> "_Connection":
        """A new connection."""
        if self._secure and self._tls is None:
            self._tls = httpx.create_ssl_context()  # whom qdrant-client trusts
        _, made = await asyncio.get_running_loop().create_connection(
            _Connection,
            self._host,
            self._port,
            ssl=self._tls,
            happy_eyeballs_delay=NEXT_ADDRESS,
        )
        self._all.add(made)
        return made

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._all:
            connection.close()


class Proxied:
    """The same through the proxy that the environment names, by httpx."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._client = httpx.AsyncClient(
            headers={"content-type": "application/json", **PLAIN, **headers},
            event_hooks={"response": [partial(bounded, largest=LARGEST)]},
            timeout=None,  # noqa: S113  who calls bounds it
        )

    async def ask(self, target: str, body: bytes | None) -> Response:
        """The answer to a POST, or without a body to a GET. Raises OSError and TooLarge."""
        method = "GET" if body is None else "POST"
        try:
            found = await self._client.request(method, self._origin + target, content=body)
        except httpx.HTTPError as error:
            raise ConnectionError(str(error)) from error
        return Response(found.status_code, found.headers.raw, found.content)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class _Turn:
    """A place among the requests that are under way, left early by one that is slow."""

    def __init__(self, gate: asyncio.Semaphore) -> None:
        self._gate: asyncio.Semaphore | None = gate

    async def __aenter__(self) -> None:
        assert self._gate is not None
        await self._gate.acquire()
        self._slow = asyncio.get_running_loop().call_later(SLOW, self._leave)

    async def __aexit__(self, *_: object) -> None:
        self._slow.cancel()
        self._leave()

    def _leave(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.release()


class _Connection(asyncio.Protocol):
    """A connection, for one request at a time; asyncio sends without delay (TCP_NODELAY)."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: Any = None
        self._answer: asyncio.Future[Response] | None = None  # of the request under way
        self._begin()

    def _begin(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._content: list[bytes] = []
        self._inside = False  # its head is complete
        self._endless = False  # it has no length

    @property
    def ready(self) -> bool:
        """True where it can take a request."""
        return self._answer is None and not self._transport.is_closing()

    def close(self) -> None:
        """End it, and the request that is under way."""
        self._transport.close()

    def abort(self) -> None:
        """End it at once, whatever is still to be sent."""
        self._transport.abort()

    def send(self, request: bytes) -> "asyncio.Future[Response]":
        """Send a request in one piece; its answer is to come."""
        self._answer = asyncio.get_running_loop().create_future()
        self._head = self._taken = 0  # bytes of its head, and in all
        self._transport.write(request)
        return self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take the next piece of an answer."""
        if self._answer is None:
            self.abort()  # nobody asked for it
            return
        self._taken += len(data)
        if self._taken > LARGEST or self._head > LONGEST_HEAD:
            self._fail(TooLarge())
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(str(error)))
        if not self._content:
            self._head = self._taken

    def eof_received(self) -> None:
        """Take the end, which is that of an answer without a length."""
        if self._endless:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request that is under way."""
        self._fail(exc or ConnectionError("The connection was closed."))

    def on_message_begin(self) -> None:
        """An answer begins; nobody may have asked for it."""
        if self._answer is None:
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those behind the content are of no use."""
        if not self._inside:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The content follows, until its length is reached or the connection ends."""
        self._inside = True
        self._endless = not any(name.lower() in _SIZED for name, _ in self._headers)

    def on_body(self, body: bytes) -> None:
        """Take the next piece of the content."""
        self._content.append(body)

    def on_message_complete(self) -> None:
        """The answer is complete, unless it was only a hint."""
        if self._parser.get_status_code() < HTTPStatus.OK:
            self._begin()
            return
        if not self._parser.should_keep_alive():
            self._transport.close()
        self._finish()

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            content = b"".join(self._content)
            answer.set_result(Response(self._parser.get_status_code(), self._headers, content))
        self._begin()

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.abort()
