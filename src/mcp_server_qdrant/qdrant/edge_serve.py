"""Inside the host: a client's session, and the only writer."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from mcp_server_qdrant.errors import EngineFailure, QdrantMcpError, RequestError
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.outbox import Outbox
from mcp_server_qdrant.qdrant.edge_gate import Gate
from mcp_server_qdrant.qdrant.edge_hybrid import Hybrid
from mcp_server_qdrant.qdrant.edge_optimise import Optimiser
from mcp_server_qdrant.qdrant.edge_reads import Reads
from mcp_server_qdrant.qdrant.edge_shards import Shards, guarded
from mcp_server_qdrant.qdrant.edge_wire import WRITES, EdgeOptions
from mcp_server_qdrant.qdrant.edge_writes import Writes

_FRAME_SECONDS = 0.002  # answers are sent at least so often: the client works on them meanwhile
_GROUP = 32  # writes acknowledged by one flush
_GONE = (
    "The data folder was deleted or moved while it was in use: this was not stored."
    " Try again; the folder is begun anew."
)

READS = frozenset({"collections", "info", "query", "retrieve", "scroll", "count", "facet"})
HYBRID = frozenset({"candidates", "idfs", "payloads"})


class Session:
    """One client: its thread reads frames, answers reads, hands writes on."""

    def __init__(self, link: Any, shards: Shards, gate: Gate, writer: "Writer") -> None:
        self._link = link
        reads, hybrid = Reads(shards), Hybrid(shards)
        self._reads: dict[str, Callable[..., Any]] = {
            **{name: getattr(reads, name) for name in READS},
            **{name: getattr(hybrid, name) for name in HYBRID},
        }
        self._gate = gate
        self._writer = writer
        self.send = Outbox(link).send

    def run(self) -> None:
        """Serve until the client goes (EOFError, OSError)."""
        while True:
            self._frame(wire.unpack(self._link.recv_bytes()))

    def _frame(self, calls: list[tuple[int, str, tuple[Any, ...]]]) -> None:
        done: list[tuple[int, bool, Any]] = []
        since = time.monotonic()
        for number, operation, arguments in calls:
            if operation in self._reads:
                with self._gate.reading():
                    done.append((number, *_outcome(self._reads[operation], arguments)))
                if time.monotonic() - since > _FRAME_SECONDS:
                    self.send(done)
                    done, since = [], time.monotonic()
            elif operation in WRITES:
                self._writer.put((self, number, operation, arguments))
            else:
                refusal = RequestError(f"The engine host knows no operation {operation!r}.")
                done.append((number, False, wire.error_out(refusal)))
        if done:
            self.send(done)


def _name(arguments: tuple[Any, ...]) -> str:
    """The collection that a call is about; empty where it is about several."""
    return arguments[0] if arguments and isinstance(arguments[0], str) else ""


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """Success and the result, or failure and the error as plain data."""
    try:
        with guarded(_name(arguments)):
            return True, function(*arguments)
    except QdrantMcpError as error:
        return False, wire.error_out(error)


class Writer(threading.Thread):
    """Does every write, in the order they came; starts optimisations when it has nothing to do."""

    def __init__(self, shards: Shards, gate: Gate, options: EdgeOptions) -> None:
        super().__init__(name="writer", daemon=True)
        self._gate = gate
        self._folder = shards.folder
        self._writes = Writes(shards)
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._pause = max(0.02, options.quiet_seconds / 2)
        self._optimiser = Optimiser(shards, self._writes, gate, options)
        self.busy = False

    def put(self, task: tuple[Session, int, str, tuple[Any, ...]]) -> None:
        """Queue a write."""
        self._queue.put(task)

    def finish(self) -> None:
        """Do what is queued, then end."""
        self._queue.put(None)
        self.join()

    def run(self) -> None:
        """Until `finish`."""
        while True:
            try:
                group = [self._queue.get(timeout=self._pause)]
            except queue.Empty:
                self.busy = self._optimiser.tend()
                continue
            self.busy = True
            while len(group) < _GROUP and not self._queue.empty():
                group.append(self._queue.get())
            self._do([task for task in group if task is not None])
            if None in group:
                self._optimiser.stop()
                return
            self.busy = self._optimiser.tend(idle=False)

    def _do(self, group: list[tuple[Session, int, str, tuple[Any, ...]]]) -> None:
        outcomes = [
            (
                session,
                number,
                _name(arguments),
                _outcome(partial(self._all_steps, operation), arguments),
            )
            for session, number, operation, arguments in group
        ]
        self._flush()
        lost = self._writes.lost()
        gone = EngineFailure(_GONE) if self._folder.gone() else None
        for session, number, name, (well, value) in outcomes:
            error = gone or (lost.get(name) if well else None)
            reply = (number, False, wire.error_out(error)) if error else (number, well, value)
            with contextlib.suppress(OSError):
                session.send([reply])

    def _all_steps(self, operation: str, *arguments: Any) -> Any:
        steps = getattr(self._writes, operation)(*arguments)
        while True:
            with self._gate.writing():
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value

    def _flush(self) -> None:
        steps = self._writes.flush()
        while True:
            with self._gate.writing():
                if next(steps, self) is self:
                    return
