"""A client's side: a running host is found or started, and called from one event loop.

When the host dies it is started again and the calls under way are repeated: for the engine, doing
them twice changes no more than doing them once, since points are written by id.
"""

import asyncio
import errno
import itertools
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from mcp_server_qdrant.core.context import caller, left
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError, unsure
from mcp_server_qdrant.hosting import wire

CONNECT_SECONDS = 20.0
LOCKED = 3  # exit code of a host: another one is at that place
FULL = 4  # exit code of a host: there is no room on the disk
_TRIES = 3
_HELLO_SECONDS = 5.0
_LONGEST_LOG = 1 << 20


@dataclass(frozen=True, slots=True)
class Service:
    """One host: `python -m module`, found by its files `folder/name.*`.

    `wire` is the version of what it says, `options["idle_seconds"]` how long it outlives its last
    client. Errors are `error` or `late`, and call the host `called`; `setting` names its folder.
    """

    module: str
    folder: Path
    name: str
    wire: int
    options: Mapping[str, Any]
    called: str
    setting: str
    error: type[BackendError]
    late: type[BackendError]

    def unavailable(self, what: str) -> BackendError:
        """The error that it cannot be used; `what` follows its name."""
        return self.error(f"{self.called} {what}")

    @property
    def rendezvous(self) -> Path:
        """Its address, while it listens."""
        return self.folder / f"{self.name}.json"

    @property
    def lock(self) -> Path:
        """Held by the process that may listen."""
        return self.folder / f"{self.name}.lock"

    @property
    def log(self) -> Path:
        """Its log, for the operator."""
        return self.folder / f"{self.name}.log"


class _Lost(Exception):
    """The connection ended before the answer came."""


class Link:
    """Calls to the host, which is found or started when it is needed."""

    def __init__(self, service: Service, timeout: float) -> None:
        self._service, self._timeout = service, timeout
        self._numbers = itertools.count()
        self._line: HostLine | None = None
        self._opening: asyncio.Task[HostLine] | None = None
        self._closed = False

    async def open(self) -> "HostLine":
        """Find or start the host; calls that come meanwhile wait for the same connection."""
        if self._closed:
            raise self._left()
        if self._line is not None and not self._line.ended:
            return self._line
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A caller that gives up must not take the connection along.
        return await asyncio.shield(self._opening)

    async def _connect(self) -> "HostLine":
        found = await asyncio.to_thread(
            connect, self._service, CONNECT_SECONDS, lambda: not self._closed
        )
        self._line = HostLine(*await asyncio.open_connection(sock=found))
        if self._closed:
            self._line.end(self._left)
        return self._line

    async def call(
        self, operation: str, *arguments: Any, timeout: float | None = None, changes: bool = False
    ) -> Any:
        """The host's plain answer; within `timeout` seconds, or less where a deadline is nearer.

        `changes`: it changes what is stored, so that an error says where that may have happened.
        """
        limit = min(self._timeout if timeout is None else float(timeout), left() or math.inf)
        until, who = time.monotonic() + limit, caller()
        name = who.name if who else ""
        call = wire.Call(next(self._numbers), operation, arguments, until, name, changes)
        lost = waiting = False
        try:
            async with asyncio.timeout(limit):
                for _ in range(_TRIES):
                    line = await self.open()
                    waiting = True
                    try:
                        return await line.answer(call)
                    except _Lost:
                        lost, waiting = True, False
                raise self._service.unavailable("stopped several times during this call.")
        except TimeoutError:
            what = f"{self._service.called} did not answer within {limit:g} seconds."
            fault, perhaps = self._service.late(what), lost or waiting
        except BackendError as error:
            fault, perhaps = error, lost
        raise unsure(fault) if perhaps and changes else fault

    async def close(self) -> None:
        """Leave; the host goes on for others."""
        self._closed = True
        if self._opening is not None:
            await asyncio.wait([self._opening])  # its thread may have a socket already
        if self._line is not None:
            self._line.end(self._left)
            await asyncio.sleep(0)  # the loop closes the socket now

    def _left(self) -> BackendError:
        return self._service.unavailable("was closed by this process.")


class HostLine:
    """A connection to a host, and the calls that wait for their answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.ended = False
        self._hearing = asyncio.create_task(self._hear(reader))

    async def answer(self, call: wire.Call) -> Any:
        """The answer to a call. Raises _Lost where the connection ends before."""
        if self.ended:
            raise _Lost
        answer = self._waiting[call.number] = asyncio.get_running_loop().create_future()
        self._writer.write(wire.framed(tuple(call)))
        try:
            return await answer
        finally:
            self._waiting.pop(call.number, None)

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        try:
            with suppress(OSError, *wire.UNREADABLE):
                while True:
                    self._take(*await wire.heard(reader))  # nothing of it is kept until the next
        finally:
            self.end(_Lost)

    def _take(self, number: int, value: Any) -> None:
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if isinstance(value, QdrantMcpError):
            answer.set_exception(value)
        else:
            answer.set_result(value)

    def end(self, error: Callable[[], Exception]) -> None:
        """Hang up and take no more calls; those under way end with the error."""
        self.ended = True
        self._writer.transport.abort()
        self._hearing.cancel()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error())


def connect(
    service: Service, timeout: float, wanted: Callable[[], bool] = lambda: True
) -> socket.socket:
    """A socket to the host, as long as it is `wanted`. It blocks.

    Raises the service's `unavailable` error.
    """
    _own(service)
    until = time.monotonic() + timeout
    started: subprocess.Popen[bytes] | None = None
    while wanted() and time.monotonic() < until:
        if (line := _dialled(service)) is not None:
            return line
        if started is None:
            started = _start(service)
        elif (code := started.poll()) is not None:
            started = None
            if code == FULL:
                raise service.unavailable("could not be started: the disk is full.")
            if code not in (0, LOCKED):  # 0: it ended before this slow client came
                raise service.unavailable("could not be started; see its log.")
            time.sleep(0.1)  # another one begins or ends
        time.sleep(0.01)
    raise service.unavailable(f"did not answer within {timeout:.0f} seconds.")


def _dialled(service: Service) -> socket.socket | None:
    """A socket to the host that is published; None where none answers."""
    found = wire.Rendezvous.read(service.rendezvous)
    try:
        line = None if found is None else found.dial(_HELLO_SECONDS)
    except TimeoutError:
        return None
    if found and line and found.wire != service.wire:
        line.close()
        raise service.error(
            "Another version of this server is using the folder; stop it or use the same version."
        )
    return line


def _own(service: Service) -> None:
    """Make the folder. Raises the service's error when it is not this user's to write to."""
    folder, fault = service.folder, ""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sys.platform != "win32" and folder.stat().st_uid != os.getuid():
            fault = "belongs to another user: choose one of your own"
        elif not os.access(folder, os.W_OK | os.X_OK):
            fault = "cannot be written to: fix its permissions, or choose another"
    except OSError as error:
        raise _not_started(service, error) from None
    if fault:
        raise service.error(f"The folder of {service.setting} {fault}.")


def _not_started(service: Service, error: OSError) -> BackendError:
    reason = error.strerror or type(error).__name__
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        reason += f" in its folder. Set {service.setting} to a folder that you may write to"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        reason += ". Allow this process more of them, with ulimit -n"
    return service.unavailable(f"could not be started: {reason}.")


def _log(path: Path) -> BinaryIO:
    """The host's log, for this user only; emptied when it has become long."""
    long = path.exists() and path.stat().st_size > _LONGEST_LOG
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if long else os.O_APPEND)
    file = os.fdopen(os.open(path, flags, 0o600), "wb" if long else "ab")
    path.chmod(0o600)
    return file


def _start(service: Service) -> "subprocess.Popen[bytes]":
    """Start a host that outlives this process if others use it."""
    # -P and cwd: nothing in the directory this process was started in is imported.
    given = str(service.rendezvous), str(service.wire), json.dumps(service.options)
    command = [sys.executable, "-P", "-m", service.module, *given]
    try:
        with _log(service.log) as log:
            process = subprocess.Popen(
                command,
                cwd=service.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        raise _not_started(service, error) from None
    threading.Thread(target=process.wait, name="host-reaper", daemon=True).start()
    return process
