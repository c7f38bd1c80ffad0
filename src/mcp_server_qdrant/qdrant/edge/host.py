"""The engine host: the process that owns a folder of shards and answers over a private socket.

No call of Qdrant Edge releases the GIL, a full disk or a damaged file kills the process, and a
folder can be opened once only; so the engine lives here, started by the first client and shared
by all of them. One thread does all work and all lines (`serve`).

    python -m mcp_server_qdrant.qdrant.edge.host FOLDER OPTIONS
"""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

from mcp_server_qdrant.hosting.host import Work, serve
from mcp_server_qdrant.hosting.wire import plain_socket
from mcp_server_qdrant.qdrant.edge import wire
from mcp_server_qdrant.qdrant.edge.files import Folder
from mcp_server_qdrant.qdrant.edge.serve import Session, Worker
from mcp_server_qdrant.qdrant.edge.shards import Shards


class Engine(Work):
    """The shards of a folder, and who works on them."""

    def __init__(self, root: Path, options: wire.EdgeOptions) -> None:
        folder = Folder(root, options.min_free)
        folder.prepare()
        self._shards = Shards(folder, options.max_open)
        self._shards.scan()
        self._worker = Worker(self._shards, options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._ended = False

    @property
    def busy(self) -> bool:
        """True while something is written or optimised."""
        return self._worker.busy

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_until_complete(self._worker.run())

    def session(self, link: Any) -> "Client":
        """A client, whose line the worker reads and writes."""
        return Client(self._loop, self._worker, link)

    def tend(self) -> None:
        """Notice a worker that died."""
        if not (self._thread.is_alive() or self._ended):
            raise RuntimeError("the worker has died")

    def end(self) -> None:
        """Write what is queued and let the shards go."""
        self._ended = True
        self._loop.call_soon_threadsafe(self._worker.finish)
        self._thread.join()
        self._shards.close_all()


class Client:
    """A client that has shown the key."""

    def __init__(self, loop: asyncio.AbstractEventLoop, worker: Worker, link: Any) -> None:
        self._loop, self._worker, self._link = loop, worker, link

    def run(self) -> None:
        """Leave the line to the worker until the client goes."""
        left = threading.Event()
        line = plain_socket(self._link)
        joined = self._loop.connect_accepted_socket(lambda: Session(self._worker, left.set), line)
        asyncio.run_coroutine_threadsafe(joined, self._loop).result()
        left.wait()


def main(arguments: list[str]) -> None:
    """Own the folder and serve it."""
    root = Path(arguments[0])
    options = wire.EdgeOptions.loads(arguments[1]) if len(arguments) > 1 else wire.EdgeOptions()
    serve(wire.service(root, options), lambda: Engine(root, options), options.idle_seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
