"""The engine host: the process that owns a folder of shards and answers over a private socket.

No call of Qdrant Edge releases the GIL, a full disk or a damaged file kills the process, and a
folder can be opened once only; so the engine lives here, started by the first client and shared
by all of them. Each client has a thread, which does its reads; one more thread does all writes.

    python -m mcp_server_qdrant.qdrant.edge_host FOLDER OPTIONS
"""

import contextlib
import os
import secrets
import signal
import sys
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing import connection as mp
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mcp_server_qdrant.errors import QdrantMcpError
from mcp_server_qdrant.qdrant import edge_wire as wire
from mcp_server_qdrant.qdrant.edge_files import Folder, read_ahead
from mcp_server_qdrant.qdrant.edge_gate import Gate
from mcp_server_qdrant.qdrant.edge_serve import Session, Writer
from mcp_server_qdrant.qdrant.edge_shards import Shards, log

LOCKED = 3  # exit code: another host has the folder
_LOCK_SECONDS = 10.0
_LONGEST_PAUSE = 0.2  # how late a signal may be heeded
_SWITCH_SECONDS = 0.0005
_SEND_SECONDS = 20.0  # a client that takes no answers for so long has to connect again


class Host:
    """One running host: listener, writer and the sessions of its clients."""

    def __init__(self, root: Path, options: wire.EdgeOptions) -> None:
        self._root = root
        self._options = options
        self._key = secrets.token_bytes(32)
        self._stop = threading.Event()
        self._sessions: set[Session] = set()
        self._guard = threading.Lock()
        self._left = time.monotonic()
        self._closing = False
        self._told = False
        self._folder = Folder(root, options.min_free)
        self._folder.prepare()
        self._shards = Shards(self._folder, options.max_open)
        self._shards.scan()
        self._gate = Gate()
        self._writer = Writer(self._shards, self._gate, options)

    def run(self) -> None:
        """Serve until told to stop, or until the last client or the folder itself is gone."""
        address = wire.socket_address(self._root)
        if address is not None:
            self._sweep_sockets(Path(address))
        with mp.Listener(address, backlog=64) as listener:
            if isinstance(listener.address, str) and sys.platform != "win32":
                Path(listener.address).chmod(0o600)
            self._writer.start()
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            threading.Thread(target=self._open_ahead, daemon=True).start()
            wire.Rendezvous(str(listener.address), self._key, os.getpid()).write(self._root)
            pause = min(_LONGEST_PAUSE, self._options.idle_seconds / 4 + 0.01)
            while not (self._told or self._stop.is_set() or self._folder.gone()):
                time.sleep(pause)
                self._stop_when_idle()
            self._stop.set()
            if not self._folder.gone():  # else it may be the next host's
                (self._root / wire.RENDEZVOUS).unlink(missing_ok=True)
        self._end()

    def _sweep_sockets(self, address: Path) -> None:
        """Remove what hosts of this folder left behind that were killed."""
        for stale in address.parent.glob(f"{wire.folder_mark(self._root)}-*.sock"):
            stale.unlink(missing_ok=True)

    def stop(self) -> None:
        """End cleanly, soon. A plain flag: a signal handler must not take the event's lock."""
        self._told = True

    def _stop_when_idle(self) -> None:
        with self._guard:
            idle = not self._sessions and not self._writer.busy
            if idle and time.monotonic() - self._left > self._options.idle_seconds:
                self._closing = True
                self._stop.set()

    def _accept(self, listener: mp.Listener) -> None:
        while not self._stop.is_set():
            try:
                link = listener.accept()
            except OSError:
                if self._stop.is_set():
                    return
                time.sleep(0.01)
                continue
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _open_ahead(self) -> None:
        """A cold disk takes 0.2 s for each: the first search over many need not wait for all."""
        with self._gate.writing():
            names = self._shards.recent(self._options.ahead)
        left = self._options.read_ahead if sys.platform == "linux" else 0
        for name in names:
            if self._stop.is_set():
                return
            with contextlib.suppress(QdrantMcpError, OSError):
                shard = self._shards.get(name)
                left -= read_ahead(self._shards.path(shard), left)
                with self._gate.writing():
                    self._shards.engine(shard)

    def _serve(self, link: Any) -> None:
        wire.limit_waits(link, receive=0.0, send=_SEND_SECONDS)
        session = Session(link, self._shards, self._gate, self._writer)
        try:
            mp.deliver_challenge(link, self._key)
            mp.answer_challenge(link, self._key)
            with self._guard:
                if self._closing:
                    return
                self._sessions.add(session)
            session.run()
        except AuthenticationError:
            log("a client without the key was refused")
        except (OSError, EOFError):
            pass  # the client has gone
        finally:
            link.close()
            with self._guard:
                self._sessions.discard(session)
                self._left = time.monotonic()

    def _end(self) -> None:
        self._writer.finish()
        # For good: a shard opened by a late read would collide with the next host.
        self._gate.shut()
        self._shards.close_all()


def _take_lock(root: Path) -> FileLock:
    """The folder's lock, waiting for a host that is just ending."""
    lock = FileLock(root / wire.LOCK, mode=0o600)
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            lock.acquire(timeout=0.2, poll_interval=0.02)
        except Timeout:
            # A published address means the owner lives: the client will find it.
            if time.monotonic() > until or wire.Rendezvous.read(root) is not None:
                sys.exit(LOCKED)
        else:
            return lock


def main(arguments: list[str]) -> None:
    """Own the folder and serve it."""
    os.umask(0o077)
    root = Path(arguments[0])
    options = wire.EdgeOptions.loads(arguments[1]) if len(arguments) > 1 else wire.EdgeOptions()
    sys.setswitchinterval(_SWITCH_SECONDS)
    lock = _take_lock(root)
    (root / wire.RENDEZVOUS).unlink(missing_ok=True)
    host = Host(root, options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: host.stop())
    host.run()
    lock.release()
    # Daemon threads may sit in a read; nothing of theirs is worth waiting for.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
