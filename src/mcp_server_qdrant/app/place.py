"""The file with a service's address, and the lock that a process holds to be the service."""

import json
from pathlib import Path
from socket import socket
from time import monotonic, sleep

from filelock import FileLock, Timeout

from mcp_server_qdrant import __version__
from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.hosting.rendezvous import Rendezvous, rendezvous_path
from mcp_server_qdrant.qdrant.edge.hold import InUse
from mcp_server_qdrant.qdrant.edge.hold import lock_folder as hold_folder
from mcp_server_qdrant.settings.environment import Settings

LEAVE_SECONDS = 40.0  # for a service to finish its calls and exit
TURN_SECONDS = 10.0  # for it to release the lock
HELLO_SECONDS = 5.0
PAUSE = 0.05


def rendezvous_file(settings: Settings) -> Path:
    """The file in which the service of these settings publishes its address."""
    return Path(rendezvous_path(settings.qdrant_url, settings.local_path, settings.cache_path))


def hold(settings: Settings) -> FileLock:
    """Take the service's lock. Raises InUse, EngineUnavailable."""
    if settings.qdrant_url is None:
        return hold_folder(settings.local_path)
    lock = FileLock(rendezvous_file(settings).with_suffix(".lock"), mode=0o600)
    try:
        rendezvous_file(settings).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        raise InUse("Another process already serves this Qdrant server to its clients.") from None
    except OSError as error:
        raise EngineUnavailable(f"QDRANT_CACHE_PATH cannot be used: {error.strerror}.") from error
    return lock


def take_when_free(settings: Settings) -> FileLock | None:
    """Take the service's lock, waiting for a service that is exiting; None if one answers.

    Raises EngineUnavailable, also if another kind of process holds the lock.
    """
    until = monotonic() + TURN_SECONDS
    while True:
        try:
            return hold(settings)
        except InUse:
            if _is_serving(rendezvous_file(settings)):
                return None
            if monotonic() > until:
                raise
        sleep(PAUSE)


def take_over(settings: Settings) -> FileLock | None:
    """Take the service's lock for a server in the foreground; a background service must exit.

    None if another process is the service of the same Qdrant server. Raises EngineUnavailable if
    an HTTP server has the store.
    """
    if settings.qdrant_url == ":memory:":
        return None
    until = monotonic() + LEAVE_SECONDS
    while True:
        try:
            return hold(settings)
        except InUse:
            if settings.qdrant_url is not None:
                return None
        if monotonic() > until or not ask_to_leave(rendezvous_file(settings)):
            raise EngineUnavailable(
                "Another process serves these collections: end it, or set QDRANT_LOCAL_PATH to "
                "another folder."
            )
        sleep(PAUSE)


def _connect(at: Path) -> socket | None:
    """Connect to the service published in a file; None if it is gone. Raises TimeoutError."""
    found = Rendezvous.read(at)
    return found.dial(HELLO_SECONDS) if found else None


def _is_serving(at: Path) -> bool:
    """Whether the service published there accepts connections."""
    try:
        connection = _connect(at)
    except TimeoutError:
        return True  # it is busy
    if connection:
        connection.close()
    return bool(connection)


def ask_to_leave(at: Path) -> bool:
    """Ask the service published there to exit; False if it refuses."""
    try:
        connection = _connect(at)
    except TimeoutError:
        return False
    if not connection:
        return True  # it has already exited
    with connection, connection.makefile("rwb") as stream:
        stream.write(json.dumps({"kind": "leave", "version": __version__}).encode() + b"\n")
        stream.flush()
        return b"yielding" in stream.readline()
