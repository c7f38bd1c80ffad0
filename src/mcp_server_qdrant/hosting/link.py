"""A client's line to a host: calls of one loop tick share a frame.

The event loop reads and writes the socket itself: a thread in between would cost every trip 0.1 ms.
When the host dies it is started again and the calls under way are repeated: for the engine, doing
them twice changes no more than doing them once, since points are written by id. The others
(`once_only`) fail, saying that they may have been done.
"""

import asyncio
import itertools
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.access import caller
from mcp_server_qdrant.core.context import left
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError, unsure
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.connect import connect
from mcp_server_qdrant.hosting.framed import PIECE_BYTES, Framed
from mcp_server_qdrant.hosting.service import Service

CONNECT_SECONDS = 20.0
_RETRIES = 2
_SWEEP_SECONDS = 0.05


class _Lost(Exception):
    """The connection ended before the answer came."""


class _Dropped(Exception):
    """The call was too late when its turn came, and was not done."""


class Link:
    """Calls to the host, from one event loop."""

    def __init__(self, service: Service, timeout: float) -> None:
        self._service, self._timeout = service, timeout
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._line: Line | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Find or start the host; calls that come meanwhile wait for the same connection."""
        if self._closed:
            raise self._left()
        if self._line is not None and not self._line.ended:
            return
        if self._opening is None or self._opening.done():
            self._opening = self._loop.create_task(self._connect())
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A caller that gives up must not take the connection along.
        await asyncio.shield(self._opening)

    async def _connect(self) -> None:
        found = await asyncio.to_thread(connect, self._service, CONNECT_SECONDS)
        loop = self._loop
        joined = loop.create_connection if sys.platform == "win32" else loop.create_unix_connection
        _, line = await joined(Line, sock=found)
        if self._closed:
            line.fail(self._left)
        else:
            self._line = line

    async def call(self, operation: str, *arguments: Any, timeout: float | None = None) -> Any:
        """The host's plain answer; within `timeout` seconds, or less where a deadline is nearer."""
        limit = self._timeout if timeout is None else float(timeout)
        limit = min(limit, left() or limit)
        until = monotonic() + limit
        fault: QdrantMcpError = self._service.unavailable("stopped several times during this call.")
        perhaps = False  # it may have been done
        for _ in range(_RETRIES + 1):
            try:
                await self._connected(until, limit)
                return await self._once(operation, arguments, until)
            except BackendError as error:
                fault = error
                break
            except _Dropped:
                fault = self._late(limit)
                break
            except TimeoutError:
                fault, perhaps = self._late(limit), True
                break
            except _Lost:
                perhaps = True
                if self._service.once_only(operation, arguments):
                    fault = self._service.unavailable("stopped during this call.")
                    break
        raise unsure(fault) if perhaps and self._service.changes(operation) else fault

    async def _connected(self, until: float, limit: float) -> None:
        if self._line is None or self._line.ended:
            try:
                async with asyncio.timeout(until - monotonic()):
                    await self.open()
            except TimeoutError:
                raise self._late(limit) from None

    async def _once(self, operation: str, arguments: tuple[Any, ...], until: float) -> Any:
        line = self._line
        if line is None:
            raise self._left()
        number, who = next(self._numbers), caller()
        answer = self._loop.create_future()
        name = who.name if who else ""
        line.send(wire.Call(number, operation, arguments, until, name), answer)
        try:
            return await answer
        finally:
            line.forget(number)

    async def close(self) -> None:
        """Leave; the host goes on for others."""
        self._closed = True
        line, self._line = self._line, None
        if line is not None:
            line.fail(self._left)
            await asyncio.sleep(0)  # the loop closes the socket now

    def _left(self) -> BackendError:
        return self._service.unavailable("was closed by this process.")

    def _late(self, seconds: float) -> BackendError:
        service = self._service
        return service.late(f"{service.called} did not answer within {seconds:g} seconds.")


class Line(Framed):
    """One connection. Calls of one loop tick share a frame."""

    def __init__(self) -> None:
        super().__init__(memoryview(bytearray(PIECE_BYTES)))
        self._waiting: dict[int, tuple[asyncio.Future[Any], float]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._tick: list[wire.Call] = []
        self.ended = False

    @override
    def heard(self, frame: bytes) -> None:
        self._deliver(wire.unpack(frame))

    @override
    def garbled(self) -> None:
        self.fail(_Lost)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(_Lost)

    def send(self, call: wire.Call, answer: "asyncio.Future[Any]") -> None:
        """Queue the call for this tick's frame; it fails with TimeoutError when it is late."""
        if self.ended:
            answer.set_exception(_Lost())
            return
        self._waiting[call.number] = answer, call.until
        if self._sweep is None:
            self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._give_up_late)
        if not self._tick:
            self._loop.call_soon(self._send_tick)
        self._tick.append(call)

    def forget(self, number: int) -> None:
        """Drop the answer to this call: nobody waits for it."""
        self._waiting.pop(number, None)

    def _give_up_late(self) -> None:
        """Fail what is overdue. One timer for all calls: a timer for each costs more than it."""
        now = monotonic()
        for answer, until in list(self._waiting.values()):
            if until <= now and not answer.done():
                answer.set_exception(TimeoutError())
        again = self._waiting and not self.ended
        self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._give_up_late) if again else None

    def _send_tick(self) -> None:
        calls, self._tick = self._tick, []
        if not self.ended:
            self.write([tuple(call) for call in calls])

    def _deliver(self, replies: list[wire.Reply]) -> None:
        for number, well, value in replies:
            answer, _ = self._waiting.pop(number, (None, 0.0))
            if answer is None or answer.done():
                continue
            if well:
                answer.set_result(value)
            else:
                answer.set_exception(_Dropped() if value is None else wire.error_in(value))

    def fail(self, error: Callable[[], Exception]) -> None:
        """Hang up and take no more calls; those under way end with the error."""
        self.ended = True
        self.abort()
        if self._sweep is not None:
            self._sweep.cancel()
        waiting, self._waiting = self._waiting, {}
        for answer, _ in waiting.values():
            if not answer.done():
                answer.set_exception(error())
