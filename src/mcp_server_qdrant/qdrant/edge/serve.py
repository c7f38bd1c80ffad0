"""Everything that is done at the engine: one piece at a time, in one thread, callers in turns.

No call of Qdrant Edge releases the GIL, so a second thread would win nothing; and with one there
is no lock. Between two pieces the thread hears what has come and sends what is done.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any

from mcp_server_qdrant.core.errors import EngineFailure, QdrantMcpError, RequestError
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.host import Client
from mcp_server_qdrant.hosting.queues import Queues
from mcp_server_qdrant.qdrant.edge.hybrid import Hybrid
from mcp_server_qdrant.qdrant.edge.optimise import Optimiser
from mcp_server_qdrant.qdrant.edge.reads import Reads
from mcp_server_qdrant.qdrant.edge.shards import Shards, guarded
from mcp_server_qdrant.qdrant.edge.wire import WRITES, EdgeOptions
from mcp_server_qdrant.qdrant.edge.writes import Writes

_FRAME_SECONDS = 0.002  # answers are sent, and others heard, at least so often
_PATIENCE = 0.05  # that a piece of a write lets reads go first
_GROUP = 32  # writes acknowledged by one flush
_GROUP_SECONDS = 0.05  # that the first of them waits for the others
_CHECK_SECONDS = 5.0  # how long a folder that was replaced may go unnoticed by readers
_GONE = (
    "The data folder was deleted or moved while it was in use: this was not stored."
    " Try again; the folder is begun anew."
)

READS = frozenset({"collections", "info", "retrieve", "scroll", "ordered", "count", "facet"})
HYBRID = frozenset({"candidates", "idfs", "payloads"})


class Read:
    """A read on its way. One of many collections goes on in parts."""

    def __init__(self, client: Client, call: wire.Call, function: Callable[..., Any]) -> None:
        self.client, self.call = client, call
        self._function = function
        self._steps: Generator[None, None, Any] | None = None

    def go_on(self, until: float) -> wire.Reply | None:
        """Do a part of it; the reply once it is done, or too late to be."""
        number, _, arguments, *_ = self.call
        if self.call.late or self.client.gone:
            return self.call.dropped
        try:
            with guarded(_name(arguments)):
                if self._steps is None:
                    found = self._function(*arguments)
                    if not isinstance(found, Generator):
                        return number, True, found
                    self._steps = found
                while (done := _step(self._steps)) is None and time.monotonic() < until:
                    pass
        except QdrantMcpError as error:
            return number, False, wire.error_out(error)
        return None if done is None else (number, True, done[0])


def _step(steps: Generator[None, None, Any]) -> tuple[Any] | None:
    """One piece of work, and what came of all of them if it was the last."""
    try:
        next(steps)
    except StopIteration as end:
        return (end.value,)
    return None


Task = tuple[Client, wire.Call]


class Worker:
    """Does reads and writes, and looks after the shards when there is nothing to do.

    A read goes before a write, which waits a little for each of its pieces. A caller's writes are
    done in their order, those of several callers in turns.
    """

    def __init__(self, shards: Shards, options: EdgeOptions) -> None:
        self._shards = shards
        reads, hybrid = Reads(shards), Hybrid(shards)
        self._operations: dict[str, Callable[..., Any]] = {
            **{name: getattr(reads, name) for name in READS},
            **{name: getattr(hybrid, name) for name in HYBRID},
        }
        self._writes = Writes(shards)
        self._reads: Queues[Read] = Queues()
        self._tasks: Queues[Task] = Queues()
        self._done: dict[Client, list[wire.Reply]] = {}
        self._optimiser = Optimiser(shards, self._writes, options)
        self._pause = max(0.02, options.quiet_seconds / 2)
        self._next_check = 0.0
        self._finishing = False
        self._woken = asyncio.Event()
        self._options = options
        self.busy = False  # something is written or optimised

    def put(self, client: Client, call: wire.Call) -> None:
        """Take a call."""
        if function := self._operations.get(call.operation):
            self._reads.put(_whose(client, call), Read(client, call, function))
        elif call.operation in WRITES:
            self._tasks.put(_whose(client, call), (client, call))
        else:
            refusal = RequestError(f"The engine host knows no operation {call.operation!r}.")
            client.send([(call.number, False, wire.error_out(refusal))])
        self._woken.set()

    def finish(self) -> None:
        """Do the writes that wait, then end."""
        self._finishing = True
        self._woken.set()

    async def run(self) -> None:
        """Until `finish`."""
        for idle in self._lane():
            if idle and not (self._reads or self._tasks or self._finishing):
                await self._wait()
            await self._serve()

    async def _wait(self) -> None:
        """For the next call, or until something may be due."""
        self._woken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause):
                await self._woken.wait()

    # Reads

    async def _serve(self) -> None:
        """Do the reads that wait or come meanwhile, for as long as other work can wait."""
        until = time.monotonic() + _PATIENCE
        await asyncio.sleep(0)
        while self._reads and time.monotonic() < until:
            self._parts(time.monotonic() + _FRAME_SECONDS)
            self._send()
            await asyncio.sleep(0)

    def _parts(self, until: float) -> None:
        """Do reads, or parts of them, as their callers take turns."""
        while self._reads:
            read = self._reads.take()
            if (reply := read.go_on(until)) is None:
                self._reads.put(_whose(read.client, read.call), read)
            else:
                self._done.setdefault(read.client, []).append(reply)
            if time.monotonic() >= until:
                return

    def _send(self) -> None:
        done, self._done = self._done, {}
        for client, replies in done.items():
            client.send(replies)

    # Writes, and what is done beside them

    def _lane(self) -> Iterator[bool]:
        """All but the reads, a piece at a time; True where there is nothing to do for now."""
        ahead = self._open_ahead()
        while True:
            wrote = bool(self._tasks)
            if wrote:
                self.busy = True
                yield from _pieces(self._do(self._group()))
            elif self._finishing:
                self._optimiser.stop()
                return
            elif _step(ahead) is None:
                yield False
                continue
            if time.monotonic() >= self._next_check:
                self._next_check = time.monotonic() + _CHECK_SECONDS
                yield from _pieces(self._look_after())
            tended = self._optimiser.tend(idle=not wrote)
            self.busy = yield from _pieces(tended)
            yield not self._tasks

    def _open_ahead(self) -> Generator[None, None, None]:
        """A cold disk takes 0.2 s for each: the first search over many need not wait for all."""
        for name in self._shards.recent(self._options.ahead):
            yield
            with suppress(QdrantMcpError, OSError):
                self._shards.engine(self._shards.get(name))

    def _look_after(self) -> Generator[None, None, None]:
        """Notice what no call would show: files that were replaced."""
        for shard in self._shards.opened():
            if shard.engine is not None:
                self._shards.check(shard)
            yield

    def _group(self) -> Iterator[Task]:
        """The writes that are acknowledged together: the first, and those that wait by then."""
        until = time.monotonic() + _GROUP_SECONDS
        for _ in range(_GROUP):
            if not self._tasks or time.monotonic() > until:
                return
            yield self._tasks.take()

    def _do(self, group: Iterable[Task]) -> Generator[None, None, None]:
        outcomes = []
        for client, call in group:
            outcomes.append((client, call, (yield from self._outcome(call))))
        yield from self._writes.flush()
        lost = self._writes.lost()
        gone = EngineFailure(_GONE) if self._shards.folder.gone() else None
        for client, call, (well, value) in outcomes:
            error = gone or (lost.get(_name(call.arguments)) if well else None)
            reply = (well, value) if error is None else (False, wire.error_out(error))
            client.send([(call.number, *reply)])

    def _outcome(self, call: wire.Call) -> Generator[None, None, tuple[bool, Any]]:
        """Success and the result, or failure and the error as plain data."""
        if call.late:
            return call.dropped[1:]
        done = None
        try:
            with guarded(_name(call.arguments)):
                steps = getattr(self._writes, call.operation)(*call.arguments)
            while done is None:
                with guarded(_name(call.arguments)):
                    done = _step(steps)
                yield
            return True, done[0]
        except QdrantMcpError as error:
            return False, wire.error_out(error)


def _pieces(steps: Generator[None, None, Any]) -> Generator[bool, None, Any]:
    """The steps as pieces of the lane: there is more to do after each."""
    try:
        while True:
            next(steps)
            yield False
    except StopIteration as end:
        return end.value


def _whose(client: Client, call: wire.Call) -> tuple[int, str]:
    """The caller; those of two servers are two, whatever their names."""
    return id(client), call.caller


def _name(arguments: tuple[Any, ...]) -> str:
    """The collection that a call is about; empty where it is about several."""
    return arguments[0] if arguments and isinstance(arguments[0], str) else ""
