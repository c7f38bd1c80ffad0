"""Prints a heartbeat for a long command if no terminal shows its progress."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import Event, Thread
from time import monotonic

import click

from mcp_server_qdrant.core.context import holding

SECONDS = 10.0  # between two lines at most


class Pulse:
    """Prints the current activity if nothing was printed for some seconds.

    `wait(seconds)` returns True, early, when the command ends.
    """

    def __init__(
        self,
        name: str,
        wait: Callable[[float], bool],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._name, self._text = name, name
        self._idle = False
        self._wait, self._clock = wait, clock
        self._began = self._printed = clock()

    def tell(self, text: str, *, printed: bool = False) -> None:
        """Set the current activity, "" if unknown; `printed`: a line has just shown it."""
        if self._idle:
            self._began = self._printed = self._clock()
        self._text, self._idle = text or self._name, False
        if printed:
            self._printed = self._clock()

    def rest(self) -> None:
        """Be silent until the next `tell`."""
        self._idle = True

    def beat(self) -> None:
        """Print until the command ends."""
        while not self._wait(max(self._printed + SECONDS - self._clock(), 0.0)):
            now = self._clock()
            if self._idle:
                self._printed = now
            elif now >= self._printed + SECONDS:
                self._printed = now
                click.echo(f"{self._text}, {now - self._began:.0f} s so far", err=True)


_PULSE: ContextVar[Pulse | None] = ContextVar("pulse", default=None)


def tell(text: str, *, printed: bool = False) -> None:
    """Set the current activity of this command, if it has a pulse."""
    if pulse := _PULSE.get():
        pulse.tell(text, printed=printed)


def rest() -> None:
    """Silence this command's pulse, if it has one, until the next `tell`."""
    if pulse := _PULSE.get():
        pulse.rest()


@contextmanager
def beating(name: str) -> Iterator[None]:
    """Print a heartbeat inside this context, unless a terminal shows the progress.

    A command without a name is part of another one, which has its own heartbeat.
    """
    if sys.stderr.isatty() or not name:
        yield
        return
    ended = Event()
    pulse = Pulse(name, ended.wait)
    # The copied context sends the lines of a hosted command to its visitor.
    thread = Thread(target=copy_context().run, args=(pulse.beat,), daemon=True)
    thread.start()
    try:
        with holding(_PULSE, pulse):
            yield
    finally:
        ended.set()
        thread.join(1.0)
