"""The engine host: the process that owns a folder of shards and answers over a private socket.

No call of Qdrant Edge releases the GIL, a full disk or a damaged file kills the process, and a
folder can be opened once only; so the engine lives here, started by the first client and shared
by all of them. One thread does all work and all lines (`serve`).

    python -m mcp_server_qdrant.qdrant.edge.host FOLDER OPTIONS
"""

import asyncio
import sys
from pathlib import Path

from mcp_server_qdrant.hosting.host import Client, Work, serve
from mcp_server_qdrant.hosting.wire import Call
from mcp_server_qdrant.qdrant.edge import wire
from mcp_server_qdrant.qdrant.edge.files import Folder
from mcp_server_qdrant.qdrant.edge.serve import Worker
from mcp_server_qdrant.qdrant.edge.shards import Shards


class Engine(Work):
    """The shards of a folder, and who works on them."""

    def __init__(self, root: Path, options: wire.EdgeOptions) -> None:
        folder = Folder(root, options.min_free)
        folder.prepare()
        self._shards = Shards(folder, options.max_open)
        self._shards.scan()
        self._worker = Worker(self._shards, options)
        self._working: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """True while something is written or optimised."""
        return self._worker.busy

    def start(self) -> None:
        """Begin to work."""
        self._working = asyncio.create_task(self._worker.run())

    def heard(self, client: Client, call: Call) -> None:
        """Take a call of a client."""
        self._worker.put(client, call)

    def tend(self) -> None:
        """Notice a worker that died."""
        if self._working is not None and self._working.done():
            raise RuntimeError("the worker has died") from self._working.exception()

    async def end(self) -> None:
        """Write what is queued and let the shards go."""
        self._worker.finish()
        if self._working is not None:
            await self._working
        self._shards.close_all()


def main(arguments: list[str]) -> None:
    """Own the folder and serve it."""
    root = Path(arguments[0])
    options = wire.EdgeOptions.loads(arguments[1]) if len(arguments) > 1 else wire.EdgeOptions()
    serve(wire.service(root, options), lambda: Engine(root, options), options.idle_seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
