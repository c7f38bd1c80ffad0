"""The engine host: the process that owns a folder of shards and answers over a private socket.

No call of Qdrant Edge releases the GIL, a full disk or a damaged file kills the process, and a
folder can be opened once only; so the engine lives here, started by the first client and shared
by all of them. One thread does all work and hears all clients: a second one would win nothing.

    python -m mcp_server_qdrant.qdrant.edge.host FOLDER OPTIONS
"""

import asyncio
import sys
import time
from collections.abc import Hashable
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.errors import (
    EngineFailure,
    EngineTimeout,
    QdrantMcpError,
    RequestError,
)
from mcp_server_qdrant.hosting.host import Client, Work, serve
from mcp_server_qdrant.hosting.wire import Call
from mcp_server_qdrant.qdrant.edge import wire
from mcp_server_qdrant.qdrant.edge.files import Folder
from mcp_server_qdrant.qdrant.edge.optimise import Optimiser
from mcp_server_qdrant.qdrant.edge.reads import Reads
from mcp_server_qdrant.qdrant.edge.shards import Shards, guarded
from mcp_server_qdrant.qdrant.edge.writes import Writes

_TURN_SECONDS = 0.002  # that a read takes before others, and the sockets, have theirs
_AHEAD = 64  # shards opened at the start
_PATIENCE = 0.05  # that a piece of a write lets reads go first
_GONE = (
    "The data folder was deleted or moved while it was in use: this was not stored."
    " Try again; the folder is begun anew."
)
READS = frozenset(
    {
        *("collections", "info", "retrieve", "scroll", "count", "facet"),
        *("candidates", "idfs", "payloads"),
    }
)


class Engine(Work):
    """The shards of a folder. Reads go before writes, of which one at a time is done."""

    def __init__(self, root: Path, options: wire.EdgeOptions) -> None:
        super().__init__()
        folder = Folder(root, options.min_free)
        folder.prepare()
        self._shards = Shards(folder, options.max_open)
        self._shards.scan()
        self._reads = Reads(self._shards, self._pause)
        self._writes = Writes(self._shards, self._let_reads_go_first)
        self._writing = asyncio.Lock()
        self._optimiser = Optimiser(self._shards, options)
        self._options = options
        self._turn_ends = 0.0
        self._upkeep = asyncio.create_task(self._look_after())

    @property
    @override
    def busy(self) -> bool:
        return self._writing.locked() or self._optimiser.busy

    @override
    def queue(self, call: Call) -> Hashable:
        return "writes" if call.operation in wire.WRITES else "reads"

    @override
    async def do(self, client: Client, call: Call) -> Any:
        name = _collection(call)
        if call.operation in wire.WRITES:
            return await self._write(call, name)
        if call.operation not in READS:
            raise RequestError(f"The engine host knows no operation {call.operation!r}.")
        with guarded(name):
            found = getattr(self._reads, call.operation)(*call.arguments)
            return await found if isawaitable(found) else found

    async def _write(self, call: Call, name: str) -> Any:
        """Callers take turns here: each waits with one of its writes."""
        async with self._writing:
            await self._let_reads_go_first()
            if call.late:
                raise EngineTimeout("Its turn came too late.")
            try:
                with guarded(name):
                    return await getattr(self._writes, call.operation)(*call.arguments)
            finally:
                self._writes.flush(name)
                if self._shards.folder.gone():
                    raise EngineFailure(_GONE)

    async def _pause(self) -> None:
        """Between two pieces of a read: others have their turn, once this one has had its own."""
        if time.monotonic() >= self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = time.monotonic() + _TURN_SECONDS

    async def _let_reads_go_first(self) -> None:
        """Between two pieces of a write: those that wait or come, for a little while."""
        until = time.monotonic() + _PATIENCE
        await asyncio.sleep(0)  # hears what has come
        await asyncio.sleep(0)
        while self._reading() and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0)

    def _reading(self) -> bool:
        return any(kind == "reads" for _, _, kind in self._queues)

    async def _look_after(self) -> None:
        """Open shards before they are asked for; then optimise where it is quiet."""
        # A cold disk takes 0.2 s for each: the first search over many need not wait for all.
        for name in self._shards.names()[: min(_AHEAD, self._options.max_open)]:
            await self._let_reads_go_first()
            with suppress(QdrantMcpError, OSError):
                self._shards.engine(self._shards.get(name))
        while True:
            await asyncio.sleep(max(0.02, self._options.quiet_seconds / 2))
            async with self._writing:
                self._optimiser.tend()

    @override
    async def end(self) -> None:
        await self.finish()
        self._upkeep.cancel()
        self._optimiser.stop()
        self._shards.close_all()


def _collection(call: Call) -> str:
    """The name of the collection that a call is about; empty where it is about several."""
    arguments = call.arguments
    return arguments[0] if arguments and isinstance(arguments[0], str) else ""


def main(arguments: list[str]) -> None:
    """Own the folder and serve it."""
    root, options = Path(arguments[0]), wire.EdgeOptions.loads(arguments[1])
    serve(wire.service(root, options), lambda: Engine(root, options), options.idle_seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
