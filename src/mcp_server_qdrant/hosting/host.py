"""The host's side: one process per place listens; one event loop hears and answers its clients.

It ends shortly after its last client has left, on a signal, and when its folder is gone.
"""

import asyncio
import contextlib
import errno
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import AuthenticationError
from multiprocessing import connection as mp
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from typing_extensions import override

from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.framed import PIECE_BYTES, Framed
from mcp_server_qdrant.hosting.log import log
from mcp_server_qdrant.hosting.service import FULL, LOCKED, Service

_LOCK_SECONDS = 10.0
_LONGEST_PAUSE = 0.2  # how late a signal may be heeded
_SWITCH_SECONDS = 0.0005
_SEND_SECONDS = 20.0  # a client that takes no answers for so long has to connect again
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Work:
    """The work of a host: the embedded engine, or the local models."""

    @property
    def busy(self) -> bool:
        """True while it must not end, though no client is there."""
        return False

    def start(self) -> None:
        """Begin the work that goes on beside the clients."""

    def heard(self, client: "Client", call: wire.Call) -> None:
        """Take a call of a client."""
        raise NotImplementedError

    def left(self, client: "Client") -> None:
        """Let go of a client that has left."""

    def tend(self) -> None:
        """Do what is due; called every so often."""

    async def end(self) -> None:
        """Finish; there are no more calls."""


class Client(Framed):
    """The line of a client that has shown the key."""

    _shared = memoryview(bytearray(PIECE_BYTES))  # by all clients

    def __init__(self, work: Work) -> None:
        super().__init__(self._shared)
        self._work = work
        self._stuck: asyncio.TimerHandle | None = None
        self.gone = False

    @override
    def heard(self, frame: bytes) -> None:
        for call in wire.calls(frame):
            self._work.heard(self, call)

    @override
    def garbled(self) -> None:
        self.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self.resume_writing()
        self._work.left(self)

    @override
    def pause_writing(self) -> None:
        self._stuck = self._loop.call_later(_SEND_SECONDS, self.abort)

    @override
    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()

    def send(self, replies: list[Any]) -> None:
        """Send a frame, at once or when there is room; in the thread of the host's loop."""
        if not self.gone:
            self.write(replies)

    def reply(self, reply: wire.Reply) -> None:
        """Send one reply from any thread."""
        self._loop.call_soon_threadsafe(self.send, [reply])


class Listener:
    """Lets in clients that know the key, which a file tells this user's processes."""

    def __init__(self, rendezvous: Path, version: int, work: Work) -> None:
        self._rendezvous, self._version, self._work = rendezvous, version, work
        self._key = secrets.token_bytes(32)
        self._clients: set[Client] = set()
        self._closed = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Let clients in meanwhile; within a running event loop. Raises OSError."""
        address = wire.socket_address(self._rendezvous)
        if isinstance(address, str):
            self._sweep_sockets(Path(address))
        with mp.Listener(address, backlog=64) as listener:
            self._work.start()
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._accept, args=(listener, loop), daemon=True).start()
            own = self._publish(listener.address)
            try:
                yield
            finally:
                self._closed = True
                if wire.Rendezvous.read(self._rendezvous) == own:  # else it is the next host's
                    self._rendezvous.unlink(missing_ok=True)

    def clients(self) -> set[Client]:
        """The clients that are there."""
        self._clients = {client for client in self._clients if not client.gone}
        return self._clients

    def _publish(self, found: str | tuple[str, int]) -> wire.Rendezvous:
        if isinstance(found, str):
            Path(found).chmod(0o600)
        address = found if isinstance(found, str) else "{}:{}".format(*found)
        own = wire.Rendezvous(address, self._key, os.getpid(), self._version)
        own.write(self._rendezvous)
        return own

    def _sweep_sockets(self, address: Path) -> None:
        """Remove the sockets of hosts of this place that were killed."""
        for stale in address.parent.glob(f"{wire.mark(self._rendezvous)}-*.sock"):
            stale.unlink(missing_ok=True)

    def _accept(self, listener: mp.Listener, loop: asyncio.AbstractEventLoop) -> None:
        while not self._closed:
            try:
                link = listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.01)
                continue
            threading.Thread(target=self._greet, args=(link, loop), daemon=True).start()

    def _greet(self, link: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Let a client that knows the key in; one that takes its time holds up nobody."""
        wire.limit_waits(link, receive=0.0, send=_SEND_SECONDS)
        with link:
            try:
                mp.deliver_challenge(link, self._key)
                mp.answer_challenge(link, self._key)
            except AuthenticationError:
                log("a client without the key was refused")
            except (OSError, EOFError):
                pass  # the client has gone
            else:
                asyncio.run_coroutine_threadsafe(self._join(_socket(link)), loop)

    async def _join(self, line: socket.socket) -> None:
        client = Client(self._work)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: client, line)
        except OSError:
            line.close()
            return
        self.clients().add(client)
        client.send([("hello", True, self._version)])


class Host:
    """One running host: it listens until nobody needs it, in one event loop."""

    def __init__(self, service: Service, work: Work, idle_seconds: float) -> None:
        self._service = service
        self._work = work
        self._idle_seconds = idle_seconds
        self._listener = Listener(service.rendezvous, service.wire, work)
        self._last = time.monotonic()  # when a client was there
        self._held = wire.identity(service.lock)
        self._stopping = False

    async def run(self) -> None:
        """Serve until told to stop, or until the last client or the folder itself is gone."""
        pause = min(_LONGEST_PAUSE, self._idle_seconds / 4 + 0.01)
        with self._listener.listening():
            while not (self._stopping or self._gone()):
                await asyncio.sleep(pause)
                self._work.tend()
                self._stop_when_idle()
        await self._work.end()

    def stop(self) -> None:
        """End cleanly, soon. A plain flag: a signal handler must not do more."""
        self._stopping = True

    def _gone(self) -> bool:
        return wire.identity(self._service.lock) != self._held

    def _stop_when_idle(self) -> None:
        now = time.monotonic()
        if self._listener.clients() or self._work.busy:
            self._last = now
        if now - self._last > self._idle_seconds:
            self._stopping = True


def _socket(link: Any) -> socket.socket:
    """The socket of a connection; both are to be closed."""
    held = socket.socket(fileno=link.fileno())
    try:
        return held.dup()
    finally:
        held.detach()


def serve(service: Service, open_work: Callable[[], Work], idle_seconds: float) -> None:
    """Be the host of a place, and end the process; exits at once where there is a host already."""
    os.umask(0o077)
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        lock = _take_lock(service)
        service.rendezvous.unlink(missing_ok=True)
        host = Host(service, open_work(), idle_seconds)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: host.stop())
        asyncio.run(host.run())
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        with contextlib.suppress(OSError):
            log("there is no room on the disk")
        os._exit(FULL)
    lock.release()
    # Daemon threads may sit in a read; nothing of theirs is worth waiting for.
    os._exit(0)


def _take_lock(service: Service) -> FileLock:
    """The place's lock, waiting for a host that is just ending."""
    lock = FileLock(service.lock, mode=0o600)
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            lock.acquire(timeout=0.2, poll_interval=0.02)
        except Timeout:
            # A published address means the owner lives: the client will find it.
            if time.monotonic() > until or wire.Rendezvous.read(service.rendezvous) is not None:
                sys.exit(LOCKED)
        else:
            return lock
