"""The service: one process that has a person's store and models, and serves all their clients.

Each client starts a pipe to it (`hosting/pipe.py`). It exits shortly after its last client has
left, on a signal, or when the store's folder is deleted.
"""

import asyncio
import json
import logging
import os
import signal
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import BaseFileLock

from mcp_server_qdrant import __version__
from mcp_server_qdrant.app import logs
from mcp_server_qdrant.app.opening import Opening
from mcp_server_qdrant.app.place import rendezvous_file
from mcp_server_qdrant.app.process import HERE, Process
from mcp_server_qdrant.app.server import SharedServer
from mcp_server_qdrant.app.session import LAST_ANSWER_SECONDS, LAST_LINE_SECONDS, converse
from mcp_server_qdrant.core.context import in_folder, serving_connection
from mcp_server_qdrant.core.disk import identity
from mcp_server_qdrant.core.errors import QdrantMcpError, contained
from mcp_server_qdrant.hosting.listen import listen
from mcp_server_qdrant.settings import environment
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.tools.recall import Recall

if TYPE_CHECKING:
    from mcp_server_qdrant.hosting.rendezvous import Rendezvous

IDLE_SECONDS = 5.0
RECALL = "recall-{}.json"  # {}: the pid
PAUSE = 0.2  # seconds between two checks for a reason to exit

# Runs a command for a client: gets the hello, later lines and `tell`; returns the exit status.
Command = Callable[
    [Mapping[str, Any], asyncio.StreamReader, Callable[..., None]], Coroutine[Any, Any, int]
]

logger = logging.getLogger(__name__)


class Client:
    """A connection to the service: MCP messages, and control lines for its pipe."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._loop = asyncio.get_running_loop()
        self.task = asyncio.current_task()
        self.handler: logging.Handler | None = None  # of its log; set once its settings are known
        self.opening: Opening | None = None  # of its services; set likewise

    async def lines(self) -> AsyncIterator[str]:
        """The lines received."""
        async for line in self._reader:
            yield line.decode("utf-8", "replace")

    async def write(self, line: str) -> None:
        """Send a message, which ends with a newline."""
        self._writer.write(line.encode())
        await self._writer.drain()

    def send_control(self, **control: Any) -> None:
        """Send a control line to the pipe; callable from any thread."""
        line = f"!{json.dumps(control)}\n".encode()
        if not self._writer.is_closing():
            self._loop.call_soon_threadsafe(self._writer.write, line)

    def end_input(self) -> None:
        """Stop reading, as if the client had closed its input."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        self._reader.feed_eof()


class Service:
    """Serves the clients of one store, each with its own settings."""

    def __init__(self, process: Process, command: Command | None = None) -> None:
        self.process = process
        self.yielding = asyncio.Event()
        self.address: Rendezvous | None = None  # its published address
        # The settings and services of an HTTP server, which does not make way for a newer version.
        self.foreground: tuple[Settings, Opening] | None = None
        self._command = command
        self._clients: dict[Client, str] = {}
        self._served: list[tuple[Settings, SharedServer]] = []
        self._published: set[Path] = set()  # rendezvous files for hooks
        self._recalls: dict[int, Recall] = {}  # by the id of their Opening
        self._router = logs.Router(self._logs_of)

    @property
    def busy(self) -> bool:
        """True while it must not exit."""
        return bool(self._clients) or self.process.busy

    async def serve_connection(
        self, hello: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection until it ends."""
        client, kind = Client(reader, writer), hello.get("kind")
        newer = _number(str(hello.get("version"))) > _number(__version__)
        if (kind == "leave" or (newer and kind == "stdio")) and self.foreground is None:
            self.yielding.set()
        if self.yielding.is_set():
            client.send_control(yielding=True)
            await asyncio.sleep(0)
            await writer.drain()
            return
        self._clients[client] = str(kind)
        folder = hello.get("folder")
        try:
            with (
                serving_connection(client),
                in_folder(Path(folder) if folder else None),
                environment.use_variables(hello.get("variables") or {}),
            ):
                status = await self._visit(client, hello, reader)
                if kind == "command" or not self.yielding.is_set():
                    client.send_control(exit=status)
                await asyncio.sleep(0)
                await writer.drain()
        finally:
            del self._clients[client]

    async def _visit(
        self, client: Client, hello: Mapping[str, Any], reader: asyncio.StreamReader
    ) -> int:
        """Do what the hello asks for; returns the exit status of the client's pipe."""
        kind = hello.get("kind")
        if kind == "recall":
            client.send_control(out=await self._recall_for_hook(hello, reader.at_eof))
            return 0
        try:
            env_file = hello.get("env_file")
            notes: list[str] = []
            settings = environment.load(Path(env_file) if env_file else None, notes.append)
        except QdrantMcpError as error:
            client.send_control(say=f"mcp-server-qdrant: {error}\n")
            return 2
        if not self.process.serves(settings):
            client.send_control(elsewhere=True)
            return 0
        if kind == "command" and self._command is not None:
            return await self._command(hello, reader, client.send_control)
        self._log_to(client, settings, notes)
        self.publish_for_hooks(settings)
        served = self.server_for(settings)
        client.opening = served.opening
        await converse(served.server, client.lines(), client.write, set())
        return 0

    def _log_to(self, client: Client, settings: Settings, notes: Iterable[str]) -> None:
        """Send these notes, then the log of the client's calls, to its pipe."""
        level = settings.fastmcp_log_level
        client.handler = logs.Sink(
            level, settings.log_format, lambda line: client.send_control(say=line)
        )
        if logging.getLogger().level > client.handler.level:
            logs.set_level(level)
        for sentence in notes:
            if settings.log_format == "json":
                logger.warning(sentence)
            else:
                client.send_control(say=f"mcp-server-qdrant: {sentence}\n")
        self._router.catch_up(client.handler)

    def _logs_of(self, visitor: Hashable | None) -> list[logging.Handler]:
        """The log handlers of a client, of an Opening's clients, or, for None, of all."""
        return [
            one.handler
            for one in [*self._clients]  # a copy: threads log too
            if one.handler is not None and visitor in (None, one, one.opening)
        ]

    def publish_for_hooks(self, settings: Settings) -> None:
        """Publish this service in QDRANT_RECALL_PATH, where the command `recall` looks."""
        folder = settings.qdrant_recall_path
        if folder is None or self.address is None:
            return
        at = folder / RECALL.format(os.getpid())
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.address.write(at)
            self._published.add(at)
        except OSError as error:
            logger.warning("QDRANT_RECALL_PATH cannot be used: %s.", error.strerror)

    def server_for(self, settings: Settings) -> SharedServer:
        """The server for these settings, shared by all clients that have the same."""
        for known, served in self._served:
            if known == settings:
                return served
        served = SharedServer(settings, linger=IDLE_SECONDS)
        self._served.append((settings, served))
        return served

    async def _recall_for_hook(self, hello: Mapping[str, Any], gone: Callable[[], bool]) -> str:
        """The text for a hook, from the first services with this QDRANT_RECALL_PATH."""
        asked = Path(str(*(hello.get("argv") or [])[:1]))
        open_ones = [(settings, one.opening) for settings, one in self._served if one.opening.users]
        for settings, opening in [*([self.foreground] if self.foreground else []), *open_ones]:
            if settings.qdrant_recall_path == asked:
                recall = self._recalls.setdefault(id(opening), Recall(opening.services))
                with suppress(QdrantMcpError), contained():
                    return await recall.tell(hello.get("hook") or {}, gone)
        return ""

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Route log records to the client whose call caused them, or to all."""
        logging.getLogger().addHandler(self._router)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(self._router)

    async def finish(self) -> None:
        """Send the clients to the next service, after answering their pending calls."""
        self.yielding.set()
        # A command would be run a second time.
        leaving = [client for client, kind in self._clients.items() if kind != "command"]
        for client in leaving:
            client.send_control(yielding=True)
        await asyncio.sleep(LAST_LINE_SECONDS)  # for lines that were already sent
        for client in leaving:
            client.end_input()
        if visits := [client.task for client in leaving if client.task]:
            await asyncio.wait(visits, timeout=LAST_ANSWER_SECONDS)

    async def close(self) -> None:
        """Close the services of all settings, then the store."""
        for at in self._published:
            with suppress(OSError):
                at.unlink()
        for _, served in self._served:
            await served.opening.close()
        await self.process.close()


@asynccontextmanager
async def serving_pipes(
    settings: Settings,
    lock: BaseFileLock | None,
    command: Command | None,
    opening: Opening | None = None,
) -> AsyncIterator[Service]:
    """Serve the pipes of this store during the body, if its `lock` is held; then close everything.

    `opening` are the services of a foreground server, which answers hooks too.
    """
    process = Process(settings, lock)
    HERE.set(process)
    service = Service(process, command)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(service.close)
        stack.enter_context(service.logging())
        process.start_opening(settings)
        if opening is not None:
            service.foreground = (settings, opening)
        if lock is not None:
            here = listen(rendezvous_file(settings), __version__, service.serve_connection)
            service.address = await stack.enter_async_context(here)
            service.publish_for_hooks(settings)
        yield service


async def run(
    settings: Settings, lock: BaseFileLock, command: Command | None, ready: Callable[[Path], None]
) -> None:
    """Run as the service until the last client leaves, a newer version comes, or a signal.

    It also ends when the store's folder is deleted. `ready` gets the rendezvous file once it is
    written.
    """
    stopping = asyncio.Event()
    loop, file = asyncio.get_running_loop(), Path(lock.lock_file)
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, stopping.set)
    held, idle = identity(file), 0.0
    async with serving_pipes(settings, lock, command) as service:
        ready(rendezvous_file(settings))
        while idle <= IDLE_SECONDS and identity(file) == held and not service.yielding.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), PAUSE)
                break
            idle = 0.0 if service.busy else idle + PAUSE
        await service.finish()


def _number(version: str) -> tuple[int, ...]:
    """The numbers of a version, for comparison."""
    numbers = version.partition("+")[0].split(".")
    return tuple(int(one) for one in numbers if one.isdecimal())
