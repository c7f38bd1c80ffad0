"""The host's side: one process per place listens, and serves each client in a thread.

It ends shortly after its last client has left, on a signal, and when its folder is gone.
"""

import contextlib
import errno
import os
import secrets
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing import connection as mp
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mcp_server_qdrant.hosting import wire
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

    def session(self, link: Any) -> Any:
        """The session of a client that has shown the key; its `run()` ends when the client goes."""
        raise NotImplementedError

    def left(self, session: Any) -> None:
        """Let go of a client that has left."""

    def tend(self) -> None:
        """Do what is due; called every so often."""

    def end(self) -> None:
        """Finish; there are no more calls."""


class Outbox:
    """Replies to one client, sent in the order in which they were given."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._frames: deque[bytes] = deque()
        self._sending = threading.Lock()

    def send(self, replies: list[Any]) -> None:
        """Send a frame, or leave it to the thread that is sending.

        Raises OSError where the client has gone; its line is hung up then.
        """
        self._frames.append(wire.pack(replies))
        while self._frames and self._sending.acquire(blocking=False):
            try:
                while self._frames:
                    self._link.send_bytes(self._frames.popleft())
            except OSError:
                # Part of a frame may be out: nothing may follow it.
                self._frames.clear()
                wire.hang_up(self._link)
                raise
            finally:
                self._sending.release()


class Host:
    """One running host: the listener and its clients."""

    def __init__(self, service: Service, work: Work, idle_seconds: float) -> None:
        self._service = service
        self._work = work
        self._idle_seconds = idle_seconds
        self._key = secrets.token_bytes(32)
        self._sessions: set[Any] = set()
        self._guard = threading.Lock()
        self._left = time.monotonic()
        self._held = wire.identity(service.lock)
        self._stopping = False

    def run(self) -> None:
        """Serve until told to stop, or until the last client or the folder itself is gone."""
        address = wire.socket_address(self._service.rendezvous)
        if isinstance(address, str):
            self._sweep_sockets(Path(address))
        with mp.Listener(address, backlog=64) as listener:
            found = listener.address
            if isinstance(found, str):
                Path(found).chmod(0o600)
            else:
                found = "{}:{}".format(*found)
            self._work.start()
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            own = wire.Rendezvous(found, self._key, os.getpid(), self._service.wire)
            own.write(self._service.rendezvous)
            pause = min(_LONGEST_PAUSE, self._idle_seconds / 4 + 0.01)
            while not (self._stopping or self._gone()):
                time.sleep(pause)
                self._work.tend()
                self._stop_when_idle()
            self._stopping = True
            if not self._gone():  # else it may be the next host's
                self._service.rendezvous.unlink(missing_ok=True)
        self._work.end()

    def stop(self) -> None:
        """End cleanly, soon. A plain flag: a signal handler must not take a lock."""
        self._stopping = True

    def _gone(self) -> bool:
        return wire.identity(self._service.lock) != self._held

    def _sweep_sockets(self, address: Path) -> None:
        """Remove the sockets of hosts of this place that were killed."""
        for stale in address.parent.glob(f"{wire.mark(self._service.rendezvous)}-*.sock"):
            stale.unlink(missing_ok=True)

    def _stop_when_idle(self) -> None:
        with self._guard:
            idle = not self._sessions and not self._work.busy
            if idle and time.monotonic() - self._left > self._idle_seconds:
                self._stopping = True

    def _accept(self, listener: mp.Listener) -> None:
        while not self._stopping:
            try:
                link = listener.accept()
            except OSError:
                if self._stopping:
                    return
                time.sleep(0.01)
                continue
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: Any) -> None:
        wire.limit_waits(link, receive=0.0, send=_SEND_SECONDS)
        session: Any = None
        try:
            mp.deliver_challenge(link, self._key)
            mp.answer_challenge(link, self._key)
            with self._guard:
                if self._stopping:
                    return
                session = self._work.session(link)
                self._sessions.add(session)
            link.send_bytes(wire.pack([("hello", True, self._service.wire)]))
            session.run()
        except AuthenticationError:
            log("a client without the key was refused")
        except (OSError, EOFError):
            pass  # the client has gone
        finally:
            link.close()
            if session is not None:
                self._work.left(session)
                with self._guard:
                    self._sessions.discard(session)
                    self._left = time.monotonic()


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
        host.run()
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
