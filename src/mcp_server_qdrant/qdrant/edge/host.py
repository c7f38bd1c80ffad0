"""The engine host: the process that owns a folder of shards and answers over a private socket.

No call of Qdrant Edge releases the GIL, a full disk or a damaged file kills the process, and a
folder can be opened once only; so the engine lives here, started by the first client and shared
by all of them. Each client has a thread, which does its reads; one more thread does all writes.

    python -m mcp_server_qdrant.qdrant.edge.host FOLDER OPTIONS
"""

import contextlib
import sys
import threading
import time
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.hosting.host import Work, serve
from mcp_server_qdrant.qdrant.edge import wire
from mcp_server_qdrant.qdrant.edge.files import Folder, read_ahead
from mcp_server_qdrant.qdrant.edge.gate import Gate
from mcp_server_qdrant.qdrant.edge.serve import Session, Writer
from mcp_server_qdrant.qdrant.edge.shards import Shards

_CHECK_SECONDS = 5.0  # how long a folder that was replaced may go unnoticed by readers


class Engine(Work):
    """The shards of a folder, and who works on them."""

    def __init__(self, root: Path, options: wire.EdgeOptions) -> None:
        self._options = options
        self._ended = False
        self._next_check = 0.0
        folder = Folder(root, options.min_free)
        folder.prepare()
        self._shards = Shards(folder, options.max_open)
        self._shards.scan()
        self._gate = Gate()
        self._writer = Writer(self._shards, self._gate, options)

    @property
    def busy(self) -> bool:
        """True while something is written or optimised."""
        return self._writer.busy

    def start(self) -> None:
        """Begin to write, and to open what was used last."""
        self._writer.start()
        threading.Thread(target=self._open_ahead, daemon=True).start()

    def session(self, link: Any) -> Session:
        """A session for a client."""
        return Session(link, self._shards, self._gate, self._writer)

    def tend(self) -> None:
        """Notice what no call would show: a writer that died, files that were replaced."""
        if not (self._writer.is_alive() or self._ended):
            raise RuntimeError("the writer has died")
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + _CHECK_SECONDS
            self._look_after()

    def _look_after(self) -> None:
        with self._gate.reading():
            opened = self._shards.opened()
        for shard in opened:
            with self._gate.reading():
                if shard.engine is not None:
                    self._shards.check(shard)
                    if time.monotonic() - shard.written > _CHECK_SECONDS:
                        self._shards.keep(shard)

    def end(self) -> None:
        """Write what is queued and let the shards go."""
        self._ended = True
        self._writer.finish()
        # For good: a shard opened by a late read would collide with the next host.
        self._gate.shut()
        self._shards.close_all()

    def _open_ahead(self) -> None:
        """A cold disk takes 0.2 s for each: the first search over many need not wait for all.

        Of more than that, a search asks few, and for what is known of the others they stay closed.
        """
        with self._gate.writing():
            names = self._shards.recent(self._options.ahead)
            many = len(self._shards.names()) > len(names)
        left = self._options.read_ahead if sys.platform == "linux" else 0
        for name in names:
            if self._ended:
                return
            with contextlib.suppress(QdrantMcpError, OSError):
                shard = self._shards.get(name)
                with self._gate.writing():
                    if many and self._shards.answers(shard):
                        continue
                left -= read_ahead(self._shards.path(shard), left)
                with self._gate.writing():
                    began = time.monotonic()
                    self._shards.engine(shard)
                time.sleep(time.monotonic() - began)  # for the searches, whatever they ask


def main(arguments: list[str]) -> None:
    """Own the folder and serve it."""
    root = Path(arguments[0])
    options = wire.EdgeOptions.loads(arguments[1]) if len(arguments) > 1 else wire.EdgeOptions()
    serve(wire.service(root, options), lambda: Engine(root, options), options.idle_seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
