"""The embedded engine: the store of a folder, in the process that uses it.

A folder can be opened only once: lock it first with `hold`. Qdrant Edge never releases the GIL, so
one event loop makes all its calls, in pieces of a few milliseconds; callers may be in any loop.
"""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast
from weakref import WeakValueDictionary

from mcp_server_qdrant.core.context import caller, current_connection, seconds_left
from mcp_server_qdrant.core.errors import (
    EngineTimeout,
    EngineUnavailable,
    QdrantMcpError,
    unsure,
)
from mcp_server_qdrant.qdrant.edge.files import Folder
from mcp_server_qdrant.qdrant.edge.hold import start_error
from mcp_server_qdrant.qdrant.edge.optimise import Optimiser
from mcp_server_qdrant.qdrant.edge.space import translate_errors
from mcp_server_qdrant.qdrant.edge.store import Store
from mcp_server_qdrant.qdrant.edge.takeover import find_earlier, migrate_all

_TURN_SECONDS = 0.002  # of a read before other calls run
_TURNS = 3  # of the loop for reads between two pieces of a write; the first two start new reads
_FLUSH_SECONDS = 5.0  # between two checks for unflushed logs

Work = Callable[[], Coroutine[Any, Any, Any]]
M = TypeVar("M", bound=Callable[..., Coroutine[Any, Any, Any]])


class _Call(NamedTuple):
    """Work on a collection, its deadline (monotonic clock), and the queue of its caller."""

    work: Work
    name: str
    until: float
    queue: Hashable
    changes: bool


class Embedded:
    """The store of a folder. Reads go before writes, and writes run one at a time.

    The reads of one caller run in sequence, and so do its writes, so that callers take turns.
    """

    def __init__(self, store: Store) -> None:
        """Call this in the event loop that makes the engine's calls; see `open`."""
        self.store = store
        self._writing = asyncio.Lock()
        self._syncing = ThreadPoolExecutor(
            1
        )  # its own thread, so that no write waits for other work
        self._optimiser = Optimiser(self.store, self._writing)
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        self._turn_ends = 0.0
        self._loop = asyncio.get_running_loop()
        self._calls: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._upkeep: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, root: Path) -> Self:
        """Open the store of a folder that this process holds. Raises EngineUnavailable."""
        try:
            opened = cls(await asyncio.to_thread(_read_store, root))
        except OSError as error:
            raise start_error(error) from None
        opened._upkeep += map(opened._loop.create_task, (opened._maintain(), opened._flush()))
        return opened

    @property
    def busy(self) -> bool:
        """True while a write or an optimisation is under way."""
        return self._writing.locked() or self._optimiser.busy

    async def call(self, work: Work, name: str, *, timeout: float, changes: bool = False) -> Any:
        """Do this work in its turn; `name` is the collection that it concerns, or "".

        It may be awaited in any event loop. A write goes on even if its caller is cancelled.
        Raises EngineTimeout after `timeout` seconds or at the context's deadline; for a write
        the error says that it may have happened.
        """
        limit = min(float(timeout), seconds_left() or math.inf)
        who = caller()
        queue = current_connection(), who.name if who else "", changes
        call = _Call(work, name, time.monotonic() + limit, queue, changes)
        self._check_open()  # once closed, its event loop may have ended
        try:
            async with asyncio.timeout(limit):
                if asyncio.get_running_loop() is self._loop:
                    return await self._start(call)
                elsewhere = asyncio.run_coroutine_threadsafe(self._start(call), self._loop)
                return await asyncio.wrap_future(elsewhere)
        except TimeoutError:
            late = EngineTimeout("The embedded engine is busy and did not answer in time.")
        raise unsure(late) if changes else EngineTimeout(f"{late} Try again in a moment.")

    def _check_open(self) -> None:
        if self._closed:
            raise EngineUnavailable("The embedded engine was closed by this process.")

    async def _start(self, call: _Call) -> Any:
        """Run a call as a task, which for a write outlives its caller; returns the result."""
        self._check_open()
        task = self._loop.create_task(self._run_in_turn(call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return await (asyncio.shield(task) if call.changes else task)

    async def _run_in_turn(self, call: _Call) -> Any:
        """Run a call in its turn; a write only if its deadline has not passed."""
        async with self._turns.setdefault(call.queue, asyncio.Lock()):
            with translate_errors(call.name):
                if not call.changes:
                    return await call.work()
                async with self._writing:
                    await self.let_reads_go_first()
                    if time.monotonic() > call.until:
                        raise EngineTimeout(
                            "It waited too long for its turn, and nothing was written."
                        )
                    try:
                        return await call.work()
                    finally:
                        # Reads run while this waits for the disk.
                        await self._loop.run_in_executor(self._syncing, self.store.settle)

    async def pause(self) -> None:
        """Between two pieces of a read: let other calls run once this turn's time is up."""
        if time.monotonic() >= self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = time.monotonic() + _TURN_SECONDS

    async def let_reads_go_first(self) -> None:
        """Between two pieces of a write: let waiting and new reads run."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def _let_others_go_first(self) -> None:
        """Between two pieces of background work: let reads and the current write run."""
        await self.let_reads_go_first()
        async with self._writing:
            pass

    async def _maintain(self) -> None:
        """Open the spaces in advance, migrate files of an earlier version, then optimise."""
        for space in [*self.store.spaces.values()]:
            await self.let_reads_go_first()
            with suppress(QdrantMcpError, OSError):
                _ = space.engine
        await self._let_others_go_first()
        await migrate_all(self.store, self._let_others_go_first)
        await self._optimiser.run()

    async def _flush(self) -> None:
        """Flush regularly, as a server does, because a long log is slow to open.

        Also remove the points of deleted collections.
        """
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            for space in [one for one in self.store.spaces.values() if one.unflushed]:
                async with self._writing:
                    await self.let_reads_go_first()
                    with suppress(QdrantMcpError), translate_errors("", "could not be flushed."):
                        space.flush()
            # The folder may be deleted at any time.
            with suppress(QdrantMcpError), translate_errors("", "could not remove points."):
                if self.store.unwanted():
                    async with self._writing:
                        await self.store.remove_unwanted(self.let_reads_go_first)

    async def close(self) -> None:
        """Finish pending calls, then close the files. New calls are refused."""
        self._closed = True
        while self._calls:
            await asyncio.wait(self._calls)
        for task in self._upkeep:
            task.cancel()
        await asyncio.wait(self._upkeep)
        self._syncing.shutdown()
        self.store.close()


class Calls:
    """Base of the engine's clients; each call may take `timeout` seconds."""

    def __init__(self, engine: Embedded, timeout: float) -> None:
        self._engine, self._timeout = engine, timeout

    @property
    def _store(self) -> Store:
        return self._engine.store


def in_turn(*, changes: bool = False, seconds: float | None = None) -> Callable[[M], M]:
    """Let the engine do the work of a method in its turn; `seconds` replaces the timeout.

    The first argument of most methods names a collection.
    """

    def decorate(work: M) -> M:
        @wraps(work)
        async def call(self: Calls, *given: Any, **named: Any) -> Any:
            limit = self._timeout if seconds is None else seconds
            first = given[0] if given else named.get("collection_name")
            name = first if isinstance(first, str) else ""
            task = partial(work, self, *given, **named)
            return await self._engine.call(task, name, timeout=limit, changes=changes)

        return cast("M", call)

    return decorate


def _read_store(root: Path) -> Store:
    """Read the store of a folder, cleaning up after a crash."""
    folder = Folder(root.absolute())
    folder.prepare()
    store = Store(folder)
    store.read()
    find_earlier(store)
    return store
