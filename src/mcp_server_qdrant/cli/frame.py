"""Shared by all commands: settings, progress, errors and exit status."""

import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.app import logs
from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.cli import visit
from mcp_server_qdrant.cli.route import ask_service
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError
from mcp_server_qdrant.core.notation import printable
from mcp_server_qdrant.settings import environment
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.values import from_home

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services

KEY = f"{__name__}.env_file"
INTERRUPTED = 130
MINUTES = 90  # seconds from which the time left is shown in minutes
LOG_SECONDS = 10.0  # between two lines of progress in a log
LOAD_SECONDS = 900.0  # timeout of a model's download and loading
GOES_ON = "Interrupted; run the same command again to continue."

logger = logging.getLogger(__name__)


@contextmanager
def reporting_errors(interrupted: str = "Interrupted.") -> Iterator[None]:
    """Turn errors of a command into one sentence and an exit status.

    The status is 1 if a backend failed, 2 for a wrong request or setting.
    """
    try:
        yield
    except QdrantMcpError as error:
        raise click.exceptions.Exit(print_error(error)) from None
    except (KeyboardInterrupt, click.Abort) as error:  # Abort: a prompt was not answered
        if isinstance(error, click.Abort):
            click.echo(err=True)  # end the prompt's line
        show_status("")
        print_message(interrupted)
        raise click.exceptions.Exit(INTERRUPTED) from None


def as_command(
    interrupted: str = "Interrupted.",
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Make a command of a coroutine function; errors are handled by `reporting_errors`."""

    def command(work: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        @wraps(work)
        def run(**options: Any) -> None:
            with reporting_errors(interrupted):
                visit.run(work(**options))

        return run

    return command


def run_at_engine(
    words: Sequence[str],
    work: Callable[[], Coroutine[Any, Any, None]],
    out: Callable[[str], bool] | None = None,
) -> int:
    """Have the service run a hidden command, or do the same `work` here if none can start.

    Returns the status. The context's object is the command that starts a service. `out` receives
    the hidden command's output, and returns whether to go on.
    """
    context = click.get_current_context()
    file: Path | None = context.meta.get(KEY)
    status = ask_service(words, str(file) if file else None, context.obj or (), out)
    if status is None:
        visit.run(work())
    return status or 0


def print_error(error: QdrantMcpError) -> int:
    """Print an error and return its exit status."""
    show_status("")
    print_message(str(error))
    return 1 if isinstance(error, BackendError) else 2


def print_message(sentence: str) -> None:
    """Print a message to stderr."""
    click.echo(f"mcp-server-qdrant: {sentence}", err=True)


def show_status(text: str) -> None:
    """Show the current activity in the changing line of a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)


class Progress:
    """Shows progress: on a terminal in one changing line, in a log by a line every 10 seconds."""

    def __init__(self) -> None:
        self._label = ""
        self._since = 0.0, 0.0  # start time, and the share done by then
        self._logged = monotonic()

    def __call__(self, text: str, done: float, total: float) -> None:
        """Report that `done` of `total` is finished of the activity `text`."""
        if not total:
            return
        label, share, now = printable(text), done / total, monotonic()
        if label != self._label:
            self._label, self._since = label, (now, share)
        began, first = self._since
        left = (now - began) * (1 - share) / (share - first) if share > first else 0.0
        about = f"{left / 60:.0f} min" if left > MINUTES else f"{left:.0f} s"
        line = f"{label}: {share:.0%}" + (f", {about} left" if left else "")
        show_status(line)
        if not sys.stderr.isatty() and now >= self._logged + LOG_SECONDS:
            click.echo(line, err=True)
            self._logged = now


@asynccontextmanager
async def open_services(settings: Settings, **changed: Any) -> "AsyncIterator[Services]":
    """The services of a server with these settings, without background work.

    Missing vectors of other texts are left to the server. Raises EngineUnavailable, ConfigError.
    """
    services = await open_lazily(settings.model_copy(update=changed), tending=False)
    try:
        yield services
    finally:
        await services.close()


async def load_model(encoder: Any, seconds: float = LOAD_SECONDS) -> bool:
    """Load a model, with a message if it takes long; returns whether it is ready in time."""
    encoder.start()
    if not await encoder.ready(1.0) and encoder.state in ("loading", "downloading"):
        print_message(encoder.reason)
        await encoder.ready(seconds)
    return bool(encoder.state == "ready")


def _keep_env_file(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[KEY] = visit.absolute(from_home(path))


# Accepted before and after a command's name.
ENV_FILE = click.Option(
    ["--env-file"],
    type=click.Path(path_type=Path),
    expose_value=False,
    callback=_keep_env_file,
    help="Read settings from this file too. Default: .env in your own configuration folder.",
)


def load_settings(*, serving: bool = False) -> Settings:
    """The settings; notes on them are printed to stderr. Raises ConfigError.

    `serving` sets up the server's log.
    """
    notes: list[str] = []
    tell: Callable[[str], None] = print_message
    try:
        read = environment.load(click.get_current_context().meta.get(KEY), notes.append)
        if serving and visit.current() is None:
            logs.configure(read.fastmcp_log_level, read.log_format)
            if read.log_format == "json":
                tell = logger.warning
        elif visit.current() is None:
            logs.configure_for_command()
    finally:
        for sentence in notes:
            tell(sentence)
    return read


def leave_folder() -> Path | None:
    """Change to a folder of Python's; returns the previous one, None if it was removed.

    Some libraries look for files in the working directory, which may be untrusted. A service is
    already in such a folder.
    """
    here = visit.folder()
    if visit.current() is None:
        os.chdir(sys.prefix)
    return here
