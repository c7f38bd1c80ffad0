"""Requests to an HTTP/1.1 server over connections that stay open.

Through httpx a request takes 2 ms of processor time, here 0.1.
"""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

import h11
import httpx

AT_ONCE = 16  # more are no help to a server
SLOW = 0.05  # seconds after which a request no longer counts among those
NEXT_ADDRESS = 0.25  # seconds before another address of the host is tried too
_PORTS = {"http": 80, "https": 443}


class Response(NamedTuple):
    """An answer as it came; names of headers are in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes


class Http:
    """The connections to one server. A slow request keeps no other waiting."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        host = parts.netloc.removesuffix(f":{_PORTS[parts.scheme]}")
        named = {"host": host, "content-type": "application/json", **headers}
        self._headers = [(name.encode(), value.encode()) for name, value in named.items()]
        self._secure = parts.scheme == "https"
        self._tls: Any = None
        self._idle: list[_Connection] = []
        self._all: WeakSet[_Connection] = WeakSet()
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def post(self, target: str, body: bytes) -> Response:
        """The answer to a request. Raises OSError where there is none."""
        await self._gate.acquire()
        with ExitStack() as place:
            place.callback(self._gate.release)
            timer = asyncio.get_running_loop().call_later(SLOW, place.close)
            try:
                connection = await self._connection()
                response = await connection.exchange(self._headers, target, body)
            finally:
                timer.cancel()
        if connection.ready:
            self._idle.append(connection)
        return response

    async def _connection(self) -> "_Connection":
        """One that is free, the one used last, or a new one."""
        while self._idle:
            if (free := self._idle.pop()).ready:
                return free
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

    def close(self) -> None:
        """Close all connections."""
        for connection in self._all:
            connection.close()


class _Connection(asyncio.Protocol):
    """A connection, for one request at a time; asyncio sends without delay (TCP_NODELAY)."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT)
        self._transport: Any = None
        self._answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._head: Any = None
        self._content = bytearray()

    @property
    def ready(self) -> bool:
        """True where it can take a request."""
        return self._http.our_state is h11.IDLE and not self._transport.is_closing()

    def close(self) -> None:
        """End it, and the request that is under way."""
        self._transport.abort()

    async def exchange(
        self, headers: list[tuple[bytes, bytes]], target: str, body: bytes
    ) -> Response:
        """The answer to a request, which is sent in one piece."""
        self._answer = asyncio.get_running_loop().create_future()
        self._content.clear()
        length = (b"content-length", str(len(body)).encode())
        request = h11.Request(method="POST", target=target, headers=[*headers, length])
        try:
            head = self._http.send(request) or b""
            self._transport.write(head + (self._http.send(h11.Data(data=body)) or b""))
            self._http.send(h11.EndOfMessage())
            return await self._answer
        except h11.LocalProtocolError as error:
            raise ConnectionError(str(error)) from error
        finally:
            if not self.ready:
                self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take the next piece of an answer."""
        try:
            self._http.receive_data(data)
            while self._take(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            self._fail(ConnectionError(str(error)))

    def eof_received(self) -> None:
        """Take the end, which is that of an answer without a length."""
        self.data_received(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request that is under way."""
        self._fail(exc or ConnectionError("The connection was closed."))

    def _take(self, event: Any) -> bool:
        """Use one event; whether there may be more of them."""
        match event:
            case h11.Response():
                self._head = event
            case h11.Data():
                self._content += event.data
            case h11.EndOfMessage():
                self._finish()
                return False
            case h11.InformationalResponse():
                pass
            case _:  # all is read, or the connection is at its end
                return False
        return True

    def _finish(self) -> None:
        head = self._head
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        reason = head.reason.decode("latin-1")
        response = Response(head.status_code, reason, headers, bytes(self._content))
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if not self._answer.done():
            self._answer.set_result(response)

    def _fail(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)
