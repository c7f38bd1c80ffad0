"""The engine host: the process that owns the store of a folder and answers over a private socket.

No call of Qdrant Edge releases the GIL, a full disk or a damaged file kills the process, and a
folder can be opened once only; so the engine lives here, started by the first client and shared
by all of them. One thread does all work and hears all clients: a second one would win nothing.

    python -m mcp_server_qdrant.qdrant.edge.host RENDEZVOUS VERSION OPTIONS
"""

import asyncio
import sys
import time
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.errors import EngineTimeout, QdrantMcpError
from mcp_server_qdrant.hosting.host import Client, Work, operation, serve
from mcp_server_qdrant.hosting.wire import Call
from mcp_server_qdrant.qdrant.edge.files import Folder
from mcp_server_qdrant.qdrant.edge.optimise import Optimiser
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from mcp_server_qdrant.qdrant.edge.reads import Reads
from mcp_server_qdrant.qdrant.edge.space import guarded
from mcp_server_qdrant.qdrant.edge.store import Store
from mcp_server_qdrant.qdrant.edge.takeover import find, take_over
from mcp_server_qdrant.qdrant.edge.writes import Writes

_TURN_SECONDS = 0.002  # that a read takes before others, and the sockets, have theirs
_TURNS = 3  # of reads between two pieces of a write; the first two hear and begin new ones
_FLUSH_SECONDS = 5.0  # between two looks for what is in logs alone


class Engine(Work):
    """The store of a folder. Reads go before writes, of which one at a time is done."""

    def __init__(self, root: Path, options: EdgeOptions) -> None:
        super().__init__()
        folder = Folder(root, options.min_free)
        folder.prepare()
        self._store = Store(folder)
        self._store.read()
        find(self._store)
        self._reads = Reads(self._store, self._pause)
        self._writes = Writes(self._store, self._let_reads_go_first)
        self._writing = asyncio.Lock()
        self._optimiser = Optimiser(self._store, options, self._writing)
        self._turn_ends = 0.0
        self._upkeep = [
            asyncio.create_task(self._look_after()),
            asyncio.create_task(self._flush()),
        ]

    @property
    @override
    def busy(self) -> bool:
        return self._writing.locked() or self._optimiser.busy

    @override
    def queue(self, call: Call) -> Hashable:
        return call.changes

    @override
    async def do(self, client: Client, call: Call) -> Any:
        """A call of the `Reads` or of the `Writes`; its first argument may name a collection."""
        work = operation(self._writes if call.changes else self._reads, call.operation)
        name = next((first for first in call.arguments[:1] if isinstance(first, str)), "")
        with guarded(name):
            if not call.changes:
                return await work(*call.arguments)
            async with self._writing:
                await self._let_reads_go_first()
                if call.late:
                    raise EngineTimeout("Its turn came too late.")
                try:
                    return await work(*call.arguments)
                finally:
                    self._store.settle()

    async def _pause(self) -> None:
        """Between two pieces of a read: others have their turn, once this one has had its own."""
        if time.monotonic() >= self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = time.monotonic() + _TURN_SECONDS

    async def _let_reads_go_first(self) -> None:
        """Between two pieces of a write: those that wait or come have a few turns."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def _look_after(self) -> None:
        """Open the spaces before they are asked for, take over earlier files, then optimise."""
        for space in [*self._store.spaces.values()]:
            await self._let_reads_go_first()
            with suppress(QdrantMcpError, OSError):
                _ = space.engine
        await take_over(self._store, self._let_reads_go_first)
        await self._optimiser.run()

    async def _flush(self) -> None:
        """Keep the logs short, as a server does: one that is long is slow to open.

        And remove the points of collections that are gone.
        """
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            for space in [one for one in self._store.spaces.values() if one.unflushed]:
                async with self._writing:
                    await self._let_reads_go_first()
                    with suppress(QdrantMcpError), guarded("", "could not be flushed."):
                        space.flush()
            if self._store.unwanted():
                async with self._writing:
                    with suppress(QdrantMcpError), guarded("", "could not remove points."):
                        await self._store.remove_unwanted(self._let_reads_go_first)

    @override
    async def end(self) -> None:
        await super().end()
        for task in self._upkeep:
            task.cancel()
        await asyncio.wait(self._upkeep)
        self._store.close()


if __name__ == "__main__":
    serve(sys.argv[1:], lambda root, options: Engine(root, EdgeOptions(**options)))
