"""A client's connection to a host, from one event loop.

When the host dies it is started again and the calls under way are repeated: for the engine, doing
them twice changes no more than doing them once, since points are written by id. The others
(`once_only`) fail, saying that they may have been done.
"""

import asyncio
import itertools
import math
from collections.abc import Callable
from contextlib import suppress
from socket import socket
from time import monotonic
from typing import Any, Self

from mcp_server_qdrant.core.context import caller, left
from mcp_server_qdrant.core.errors import BackendError, unsure
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.connect import Service, connect

CONNECT_SECONDS = 20.0
_TRIES = 3


class _Lost(Exception):
    """The connection ended before the answer came."""


class Link:
    """Calls to the host, which is found or started when it is needed."""

    def __init__(self, service: Service, timeout: float) -> None:
        self._service, self._timeout = service, timeout
        self._numbers = itertools.count()
        self._line: HostLine | None = None
        self._opening: asyncio.Task[HostLine] | None = None
        self._closed = False

    async def open(self) -> "HostLine":
        """Find or start the host; calls that come meanwhile wait for the same connection."""
        if self._closed:
            raise self._left()
        if self._line is not None and not self._line.ended:
            return self._line
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A caller that gives up must not take the connection along.
        return await asyncio.shield(self._opening)

    async def _connect(self) -> "HostLine":
        found = await asyncio.to_thread(connect, self._service, CONNECT_SECONDS)
        self._line = await HostLine.on(found)
        if self._closed:
            self._line.end(self._left)
        return self._line

    async def call(self, operation: str, *arguments: Any, timeout: float | None = None) -> Any:
        """The host's plain answer; within `timeout` seconds, or less where a deadline is nearer."""
        limit = min(self._timeout if timeout is None else float(timeout), left() or math.inf)
        until, who = monotonic() + limit, caller()
        name = who.name if who else ""
        call = wire.Call(next(self._numbers), operation, arguments, until, name)
        lost = waiting = False
        try:
            async with asyncio.timeout(limit):
                for _ in range(_TRIES):
                    line = await self.open()
                    waiting = True
                    try:
                        return await line.answer(call)
                    except _Lost:
                        lost, waiting = True, False
                    if operation in self._service.once_only:
                        raise self._service.unavailable("stopped during this call.")
                raise self._service.unavailable("stopped several times during this call.")
        except TimeoutError:
            fault, perhaps = self._late(limit), lost or waiting
        except BackendError as error:
            fault, perhaps = error, lost
        raise unsure(fault) if perhaps and operation in self._service.changes else fault

    async def close(self) -> None:
        """Leave; the host goes on for others."""
        self._closed = True
        if self._line is not None:
            self._line.end(self._left)
            await asyncio.sleep(0)  # the loop closes the socket now

    def _left(self) -> BackendError:
        return self._service.unavailable("was closed by this process.")

    def _late(self, seconds: float) -> BackendError:
        service = self._service
        return service.late(f"{service.called} did not answer within {seconds:g} seconds.")


class HostLine:
    """A connection to a host, and the calls that wait for their answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.ended = False
        self._hearing = asyncio.create_task(self._hear(reader))

    @classmethod
    async def on(cls, found: socket) -> Self:
        """The line on a connected socket."""
        found.settimeout(0)
        return cls(*await asyncio.open_connection(sock=found))

    async def answer(self, call: wire.Call) -> Any:
        """The answer to a call. Raises _Lost where the connection ends before."""
        if self.ended:
            raise _Lost
        answer = self._waiting[call.number] = asyncio.get_running_loop().create_future()
        self._writer.write(wire.framed(tuple(call)))
        try:
            return await answer
        finally:
            self._waiting.pop(call.number, None)

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        try:
            with suppress(OSError, *wire.UNREADABLE):
                while True:
                    self._take(*await wire.heard(reader))  # nothing of it is kept until the next
        finally:
            self.end(_Lost)

    def _take(self, number: int, well: bool, value: Any) -> None:  # noqa: FBT001
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if well:
            answer.set_result(value)
        else:
            answer.set_exception(wire.error_in(value))

    def end(self, error: Callable[[], Exception]) -> None:
        """Hang up and take no more calls; those under way end with the error."""
        self.ended = True
        self._writer.transport.abort()
        self._hearing.cancel()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error())
