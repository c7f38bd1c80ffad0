"""The host's side: one process per place listens; one event loop hears and answers its clients.

It ends shortly after its last client has left, on a signal, and when its folder is gone.
"""

import asyncio
import contextlib
import errno
import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from functools import partial
from hmac import compare_digest
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

from mcp_server_qdrant.core.disk import identity
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError, contained
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.link import FULL, LOCKED

_LONGEST_PAUSE = 0.2  # how late a signal may be heeded
_SWITCH_SECONDS = 0.0005
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Client = asyncio.StreamWriter  # of one that has shown that it knows the key

logger = logging.getLogger(__name__)


class Work:
    """What a host does: the embedded engine, or the local models.

    Each caller has queues of its own, whose calls are done one after the other: so callers take
    turns.
    """

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = False

    def queue(self, call: wire.Call) -> Hashable:
        """Which of its caller's queues a call joins; by default one of its own."""
        return call.number

    async def do(self, client: Client, call: wire.Call) -> Any:
        """The plain answer to a call. Raises QdrantMcpError."""
        raise NotImplementedError

    @property
    def busy(self) -> bool:
        """True while it must not end, though no client is there."""
        return False

    async def end(self) -> None:
        """Finish the calls that were taken; new ones are not answered."""
        self._ending = True
        while self._tasks:
            await asyncio.wait(self._tasks)

    def take(self, client: Client, call: wire.Call) -> None:
        """Have a call done in its turn."""
        if not self._ending:
            task = asyncio.create_task(self._serve(client, call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: Client, call: wire.Call) -> None:
        """Do a call in its turn, unless its deadline has passed."""
        queue = client, call.caller, self.queue(call)
        async with self._turns.setdefault(queue, asyncio.Lock()):
            if call.late:
                return
            reply = call.number, await self._answer(client, call)
            if not client.is_closing():  # it has not left meanwhile
                client.write(wire.framed(reply))

    async def _answer(self, client: Client, call: wire.Call) -> Any:
        """The answer, or the error that is one."""
        try:
            with contained():  # without a reply the client would wait for minutes
                return await self.do(client, call)
        except QdrantMcpError as error:
            if error.__cause__ is not None:
                logger.warning("%s: %r", call.operation, error.__cause__)
            return error


def operation(part: object, name: str) -> Callable[..., Any]:
    """The public method of that name, which clients may call. Raises RequestError."""
    found: Callable[..., Any] | None = getattr(part, name, None)
    if found is None or name.startswith("_"):
        raise RequestError(f"The host knows no operation {name!r}.")
    return found


async def _known(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes) -> bool:
    """Prove to each other that both know the key."""
    own = secrets.token_bytes(wire.NONCE)
    writer.write(own)
    given = await reader.readexactly(wire.PROOF)
    theirs = await reader.readexactly(wire.NONCE)
    if not compare_digest(given, wire.proof(key, b"client", own)):
        logger.warning("A client without the key was refused")
        return False
    writer.write(wire.proof(key, b"host", theirs))
    return True


@contextlib.asynccontextmanager
async def listening(rendezvous: Path, version: int, work: Work) -> AsyncIterator[set[Client]]:
    """Let clients in that know the key, which a file tells this user's processes. Raises OSError.

    Yields those that are there.
    """
    here: set[Client] = set()
    key = secrets.token_bytes(32)

    async def hear(reader: asyncio.StreamReader, client: Client) -> None:
        try:
            with contextlib.suppress(OSError, *wire.UNREADABLE):
                if await _known(reader, client, key):
                    here.add(client)
                while client in here:
                    work.take(client, wire.Call(*await wire.heard(reader)))
        finally:
            client.transport.abort()
            here.discard(client)

    wire.Rendezvous.clear(rendezvous)
    if sys.platform == "win32":
        server = await asyncio.start_server(hear, "127.0.0.1", 0)
        address = "{}:{}".format(*server.sockets[0].getsockname())
    else:
        path = wire.socket_path()
        server = await asyncio.start_unix_server(hear, path, backlog=64)
        path.chmod(0o600)
        address = str(path)
    own = wire.Rendezvous(address, key, os.getpid(), version)
    try:
        own.write(rendezvous)
        yield here
    finally:
        server.close()
        own.withdraw(rendezvous)


async def run(
    rendezvous: Path, version: int, open_work: Callable[[], Work], idle_seconds: float
) -> None:
    """Serve until told to stop, or until the last client or the folder itself is gone."""
    work = open_work()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    lock = rendezvous.with_suffix(".lock")
    held = identity(lock)
    pause = min(_LONGEST_PAUSE, idle_seconds / 4 + 0.01)
    idle = 0.0  # seconds without a client, not counting those in which none could be heard
    async with listening(rendezvous, version, work) as here:
        while not stopping.is_set() and identity(lock) == held and idle <= idle_seconds:
            await asyncio.sleep(pause)
            idle = 0.0 if here or work.busy else idle + pause
    await work.end()


def serve(arguments: Sequence[str], open_work: Callable[[Path, dict[str, Any]], Work]) -> None:
    """Be the host that a `Service` starts, and end the process; at once where there is one already.

    `open_work` gets the folder and the options.
    """
    rendezvous, version, options = Path(arguments[0]), int(arguments[1]), json.loads(arguments[2])
    opening = partial(open_work, rendezvous.parent, options)
    os.umask(0o077)
    sys.setswitchinterval(_SWITCH_SECONDS)
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.raiseExceptions = False  # on a full disk nothing is logged, and the host goes on
    try:
        lock = FileLock(rendezvous.with_suffix(".lock"), mode=0o600)
        lock.acquire(blocking=False)
        asyncio.run(run(rendezvous, version, opening, options["idle_seconds"]))
    except Timeout:
        sys.exit(LOCKED)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        logger.warning("There is no room on the disk")
        os._exit(FULL)
    lock.release()
    # Daemon threads may sit in a read; nothing of theirs is worth waiting for.
    os._exit(0)
