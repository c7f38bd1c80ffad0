"""A client's session inside the host, and the only writer."""

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from typing import Any

from mcp_server_qdrant.core.errors import EngineFailure, QdrantMcpError, RequestError
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.host import Outbox
from mcp_server_qdrant.hosting.shares import Shares
from mcp_server_qdrant.qdrant.edge.gate import Gate
from mcp_server_qdrant.qdrant.edge.hybrid import Hybrid
from mcp_server_qdrant.qdrant.edge.optimise import Optimiser
from mcp_server_qdrant.qdrant.edge.reads import Reads
from mcp_server_qdrant.qdrant.edge.shards import Shards, guarded
from mcp_server_qdrant.qdrant.edge.wire import WRITES, EdgeOptions
from mcp_server_qdrant.qdrant.edge.writes import Writes

_FRAME_SECONDS = 0.002  # answers are sent, and others heard, at least so often
_TURN_SECONDS = 0.02  # that a read takes before the caller's next ones are begun
_GROUP = 32  # writes acknowledged by one flush
_GROUP_SECONDS = 0.05  # that the first of them waits for the others
_GONE = (
    "The data folder was deleted or moved while it was in use: this was not stored."
    " Try again; the folder is begun anew."
)

Task = tuple["Session", wire.Call]

READS = frozenset({"collections", "info", "retrieve", "scroll", "ordered", "count", "facet"})
HYBRID = frozenset({"candidates", "idfs", "payloads"})


class Read:
    """A read on its way. One that takes long goes on in parts."""

    def __init__(self, call: wire.Call, function: Callable[..., Any]) -> None:
        self.call = call
        self.seconds = 0.0  # that it took
        self._function = function
        self._steps: Generator[None, None, Any] | None = None

    def go_on(self, until: float) -> wire.Reply | None:
        """Do a part of it; the reply once it is done."""
        number, _, arguments, *_ = self.call
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


class Session:
    """One client: its thread reads frames, answers reads, hands writes on.

    Reads of different callers take turns, and what comes meanwhile is heard between two of them.
    """

    def __init__(self, link: Any, shards: Shards, gate: Gate, writer: "Writer") -> None:
        self._link = link
        reads, hybrid = Reads(shards), Hybrid(shards)
        self._reads: dict[str, Callable[..., Any]] = {
            **{name: getattr(reads, name) for name in READS},
            **{name: getattr(hybrid, name) for name in HYBRID},
        }
        self._gate = gate
        self._writer = writer
        self._waiting: Shares[Read] = Shares()
        self.send = Outbox(link).send

    def run(self) -> None:
        """Serve until the client goes (EOFError, OSError)."""
        while True:
            self._hear()
            self._serve()

    def _hear(self) -> None:
        """Take the next frame."""
        for call in wire.calls(self._link.recv_bytes()):
            if call.operation in self._reads:
                self._waiting.put(call.caller, Read(call, self._reads[call.operation]))
            elif call.operation in WRITES:
                self._writer.put(self, call)
            else:
                refusal = RequestError(f"The engine host knows no operation {call.operation!r}.")
                self.send([(call.number, False, wire.error_out(refusal))])

    def _hear_all(self, wait: float) -> None:
        """Take the frames that are there, or the first that comes within so many seconds."""
        while self._link.poll(wait):
            self._hear()
            wait = 0.0

    def _serve(self) -> None:
        """Do the waiting reads. A call that comes during a part goes before the next part."""
        done: list[wire.Reply] = []
        since = time.monotonic()
        while self._waiting:
            reply, pause = None, self._waiting.pause()
            if not pause:
                caller, read = self._waiting.take()
                if (reply := self._part(caller, read)) is not None:
                    done.append(reply)
            if pause or time.monotonic() - since > _FRAME_SECONDS:
                if done:
                    self.send(done)
                self._hear_all(pause)
                done, since = [], time.monotonic()
            if reply is None and not pause:
                self._waiting.put(caller, read, first=read.seconds < _TURN_SECONDS)
        if done:
            self.send(done)

    def _part(self, caller: Hashable, read: Read) -> wire.Reply | None:
        """Do a part of a read; its reply once it is done, or too late to be."""
        if read.call.late:
            return read.call.dropped
        with self._gate.reading(_whose(self, read.call)):
            began = time.monotonic()
            reply = read.go_on(began + _FRAME_SECONDS)
            seconds = time.monotonic() - began
            read.seconds += seconds
            self._waiting.charge(caller, seconds)
            self._waiting.rest(caller, seconds)
        return reply


class Writer(threading.Thread):
    """Does every write; starts optimisations when it has nothing to do.

    A caller's writes are done in their order, those of several callers in turns.
    """

    def __init__(self, shards: Shards, gate: Gate, options: EdgeOptions) -> None:
        super().__init__(name="writer", daemon=True)
        self._gate = gate
        self._folder = shards.folder
        self._writes = Writes(shards)
        self._waiting: Shares[Task] = Shares()
        self._changed = threading.Condition()
        self._finishing = False
        self._pause = max(0.02, options.quiet_seconds / 2)
        self._optimiser = Optimiser(shards, self._writes, gate, options)
        self.busy = False

    def put(self, session: Session, call: wire.Call) -> None:
        """Queue a write."""
        with self._changed:
            self._waiting.put(_whose(session, call), (session, call))
            self._changed.notify()

    def finish(self) -> None:
        """Do what is queued, then end."""
        with self._changed:
            self._finishing = True
            self._changed.notify()
        self.join()

    def run(self) -> None:
        """Until `finish`."""
        while True:
            task = self._next(self._pause)
            if task is not None:
                self.busy = True
                self._do(self._group(task))
            elif self._finishing:
                self._optimiser.stop()
                return
            self.busy = self._optimiser.tend(idle=task is None)

    def _next(self, seconds: float = 0.0) -> Task | None:
        """The next write, waited for if there is none."""
        with self._changed:
            if not self._waiting and not self._finishing and seconds:
                self._changed.wait(seconds)
            return self._waiting.take()[1] if self._waiting else None

    def _group(self, first: Task) -> Iterator[Task]:
        """The writes that are acknowledged together: the first, and those that wait by then."""
        until = time.monotonic() + _GROUP_SECONDS
        yield first
        for _ in range(_GROUP - 1):
            if time.monotonic() > until or (task := self._next()) is None:
                return
            yield task

    def _do(self, group: Iterable[Task]) -> None:
        outcomes = [(session, call, self._outcome(session, call)) for session, call in group]
        self._finish(self._writes.flush())
        lost = self._writes.lost()
        gone = EngineFailure(_GONE) if self._folder.gone() else None
        for session, call, (well, value) in outcomes:
            error = gone or (lost.get(_name(call.arguments)) if well else None)
            reply = (well, value) if error is None else (False, wire.error_out(error))
            with contextlib.suppress(OSError):
                session.send([(call.number, *reply)])

    def _outcome(self, session: Session, call: wire.Call) -> tuple[bool, Any]:
        """Success and the result, or failure and the error as plain data."""
        if call.late:
            return call.dropped[1:]
        began = time.monotonic()
        try:
            with guarded(_name(call.arguments)):
                return True, self._finish(getattr(self._writes, call.operation)(*call.arguments))
        except QdrantMcpError as error:
            return False, wire.error_out(error)
        finally:
            with self._changed:
                self._waiting.charge(_whose(session, call), time.monotonic() - began)

    def _finish(self, steps: Generator[None, None, Any]) -> Any:
        while True:
            with self._gate.writing():
                if (done := _step(steps)) is not None:
                    return done[0]


def _whose(session: Session, call: wire.Call) -> tuple[int, str]:
    """Callers of two servers are two, whatever their names."""
    return id(session), call.caller


def _name(arguments: tuple[Any, ...]) -> str:
    """The collection that a call is about; empty where it is about several."""
    return arguments[0] if arguments and isinstance(arguments[0], str) else ""
