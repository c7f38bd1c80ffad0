"""The frame of every command: its settings, what it prints on the way, and how it ends."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.cli import logs
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError
from mcp_server_qdrant.core.notation import printable
from mcp_server_qdrant.settings import environment
from mcp_server_qdrant.settings.environment import Settings

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services

KEY = f"{__name__}.env_file"
INTERRUPTED = 130
MINUTES = 90  # seconds from which on minutes are told
LOAD_SECONDS = 900.0  # a model may have to be downloaded
GOES_ON = "Interrupted; the same command goes on from here."

logger = logging.getLogger(__name__)


@contextmanager
def ending(interrupted: str = "Interrupted.") -> Iterator[None]:
    """Run a command to its end: an error is one sentence and a status.

    1 where something behind failed, 2 where something was asked wrongly.
    """
    try:
        yield
    except QdrantMcpError as error:
        raise click.exceptions.Exit(failed(error)) from None
    except (KeyboardInterrupt, click.Abort) as error:  # Abort: a question had no answer
        if isinstance(error, click.Abort):
            click.echo(err=True)  # the question's line is still open
        show("")
        say(interrupted)
        raise click.exceptions.Exit(INTERRUPTED) from None


def runs(
    interrupted: str = "Interrupted.",
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """A command that runs a coroutine to its end, as `ending` does."""

    def command(work: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        @wraps(work)
        def run(**options: Any) -> None:
            with ending(interrupted):
                asyncio.run(work(**options))

        return run

    return command


def failed(error: QdrantMcpError) -> int:
    """Print an error; the status that it ends with."""
    show("")
    say(str(error))
    return 1 if isinstance(error, BackendError) else 2


def say(sentence: str) -> None:
    """Print something on stderr that was not asked for."""
    click.echo(f"mcp-server-qdrant: {sentence}", err=True)


def show(text: str) -> None:
    """Print what is going on now, in one line of a terminal that changes; nothing elsewhere."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)


class Progress:
    """How far a thing is that is worked on: on a terminal as `show`, in a log a line per tenth."""

    def __init__(self) -> None:
        self._label = ""
        self._since = 0.0, 0.0  # when it began, and with which share
        self._line = ""

    def __call__(self, text: str, done: float, total: float) -> None:
        """So much of all is done of what the text names."""
        if not total:
            return
        label, share, now = printable(text), done / total, monotonic()
        if label != self._label:
            self._label, self._since = label, (now, share)
        if sys.stderr.isatty():
            began, first = self._since
            left = (now - began) * (1 - share) / (share - first) if share > first else 0.0
            about = f"{left / 60:.0f} min" if left > MINUTES else f"{left:.0f} s"
            show(f"{label}: {share:.0%}" + (f", {about} left" if left else ""))
        elif (line := f"{label}: {10 * int(10 * share)} %") != self._line:
            click.echo(line, err=True)
            self._line = line


@asynccontextmanager
async def opened(settings: Settings, **changed: Any) -> "AsyncIterator[Services]":
    """The services of a server with these settings, which does nothing on its own meanwhile.

    Vectors that other texts still lack are left to the server. Raises EngineUnavailable,
    ConfigError.
    """
    apart = settings.model_copy(update={"qdrant_read_only": True, **changed})
    services = await open_lazily(apart)
    try:
        yield services
    finally:
        await services.close()


async def loaded(encoder: Any, seconds: float = LOAD_SECONDS) -> bool:
    """Have a model loaded, and say so where it takes a while; whether it is ready in time."""
    encoder.start()
    if not await encoder.ready(1.0) and encoder.state in ("loading", "downloading"):
        say(encoder.reason)
        await encoder.ready(seconds)
    return bool(encoder.state == "ready")


def _noted(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[KEY] = path


# It may stand before a command's name or after it.
ENV_FILE = click.Option(
    ["--env-file"],
    type=click.Path(path_type=Path),
    expose_value=False,
    callback=_noted,
    help="Read settings from this file too. Default: .env in your own configuration folder.",
)


def load(*, serving: bool = False) -> Settings:
    """The settings, and on stderr what the person may not expect of them. Raises ConfigError.

    Where it is for `serving`, logs are set up.
    """
    notes: list[str] = []
    tell: Callable[[str], None] = say
    try:
        read = environment.load(click.get_current_context().meta.get(KEY), notes.append)
        if serving:
            logs.configure(read.fastmcp_log_level, read.log_format)
            if read.log_format == "json":
                tell = logger.warning
        else:
            logs.configure_for_command()
    finally:
        for sentence in notes:
            tell(sentence)
    return read


def leave_folder() -> Path | None:
    """Change to a folder of Python's own; returns the one before, None where it is removed.

    Some libraries look for files in the working directory, which may be a stranger's.
    """
    try:
        return Path.cwd()
    except OSError:
        return None
    finally:
        os.chdir(sys.prefix)
