"""Lets a command run in its own process, or in the service on behalf of a visitor.

Inside the service a command uses the streams, the folder and the interrupts of its visitor. A
context variable holds the visit; tasks and threads started inside inherit it. The visitor's
environment and folder are held by `settings.environment` and `core.context`.
"""

import asyncio
import io
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from typing_extensions import override

from mcp_server_qdrant.core.context import binding, client_folder

if TYPE_CHECKING:

    class _Path(click.Path[Path]): ...
else:
    _Path = click.Path  # not generic in older versions

T = TypeVar("T")


class Visit:
    """A command that the service runs for a visitor.

    `tell` sends a message to the visitor's pipe, from any thread. `terminal` says whether `out` and
    `err` are terminals, and has the number of `columns`.
    """

    def __init__(self, tell: Callable[..., None], terminal: Mapping[str, Any]) -> None:
        self.terminal = terminal
        self.quiet = False  # True: its log is not shown
        self._tell = tell
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._cancel: Callable[[], object] | None = None
        self._interrupted = False  # an interrupt is pending

    def enter(self) -> AbstractContextManager[None]:
        """A context in which this thread works for the visitor."""
        self._thread = threading.get_ident()
        return binding(_VISIT, self)

    def write(self, text: str, *, err: bool) -> None:
        """Print a text. Raises KeyboardInterrupt if an interrupt is pending."""
        self._check()
        self._tell(**{"say" if err else "out": text})

    def log(self, line: str) -> None:
        """Print a line of the log, unless the visit is quiet."""
        if not self.quiet:
            self._tell(say=f"{line}\n")

    def interrupt(self) -> None:
        """Interrupt the command: cancel its coroutine, or else stop it when it prints next."""
        with self._lock:
            if self._cancel is None:
                self._interrupted = True
            else:
                self._cancel()

    async def cancellable(self, work: Coroutine[Any, Any, T]) -> T:
        """Await this work; an interrupt cancels it."""
        task = asyncio.current_task()
        assert task is not None
        self._cancel_by(partial(task.get_loop().call_soon_threadsafe, task.cancel))
        try:
            return await work
        finally:
            self._cancel_by(None)

    def _cancel_by(self, cancel: Callable[[], object] | None) -> None:
        with self._lock:
            self._cancel = cancel
            if cancel and self._interrupted:
                self._interrupted = False
                cancel()

    def _check(self) -> None:
        """Raise a pending interrupt once, in the command's own thread."""
        with self._lock:
            raised = self._interrupted and threading.get_ident() == self._thread
            self._interrupted = self._interrupted and not raised
        if raised:
            raise KeyboardInterrupt


_VISIT: ContextVar[Visit | None] = ContextVar("visit", default=None)
current = _VISIT.get


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`. Raises KeyboardInterrupt, also inside a visit."""
    visit = current()
    if visit is None:
        return asyncio.run(work)
    try:
        return asyncio.run(visit.cancellable(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def folder() -> Path | None:
    """The working directory of the command's caller; None if it was removed."""
    if current() is not None:
        return client_folder()
    try:
        return Path.cwd()
    except OSError:
        return None


def absolute(path: str | Path) -> Path:
    """The path relative to the caller's working directory, made absolute. Raises UsageError."""
    if (whole := Path(path)).is_absolute():
        return whole
    if (here := folder()) is None:
        raise click.UsageError("Your working directory no longer exists: give absolute paths.")
    return here / whole


class GivenPath(_Path):
    """A path argument, made absolute."""

    @override
    def convert(self, value: Any, param: Any, ctx: Any) -> Path:
        """The absolute path."""
        return super().convert(absolute(value), param, ctx)


def install_streams() -> None:
    """Redirect the output of commands to their visitors. No hosted command reads stdin."""
    sys.stdout, sys.stderr = Printed(sys.stdout, err=False), Printed(sys.stderr, err=True)


class Printed(io.TextIOBase):
    """A standard stream: the visitor's inside a visit, else the process's own."""

    encoding = "utf-8"  # for an ASCII stream click would use the underlying bytes
    errors = "replace"

    def __init__(self, own: TextIO, *, err: bool) -> None:
        self._own = own
        self._err = err

    @override
    def write(self, text: str, /) -> int:
        """Print a text and return its length."""
        if not isinstance(text, str):  # click tries bytes
            raise TypeError("A text must be printed here.")
        if visit := current():
            visit.write(text, err=self._err)
            return len(text)
        return self._own.write(text)

    @override
    def flush(self) -> None:
        """Flush the process's own stream; a visitor's is not buffered."""
        if current() is None:
            self._own.flush()

    @override
    def isatty(self) -> bool:
        """True for a terminal."""
        if visit := current():
            return bool(visit.terminal.get("err" if self._err else "out"))
        return self._own.isatty()

    @override
    def fileno(self) -> int:
        """The process's own descriptor. Raises UnsupportedOperation inside a visit."""
        return self._own.fileno() if current() is None else super().fileno()


class VisitLog(logging.Handler):
    """Sends the log of a command to its visitor only. Records outside a visit are ignored."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Print the record to the visitor."""
        if visit := current():
            visit.log(self.format(record))


def mute() -> None:
    """Hide the log of this command."""
    if visit := current():
        visit.quiet = True
    else:
        logging.basicConfig(handlers=[logging.NullHandler()])
