"""The frame of every command: its settings, what it prints on the way, and how it ends."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError

if TYPE_CHECKING:
    from mcp_server_qdrant.settings.environment import Settings

Command = TypeVar("Command", bound=Callable[..., Any])
Result = TypeVar("Result")
KEY = f"{__name__}.env_file"
INTERRUPTED = 130
WIDTH = 24  # of a bar
BAR_SECONDS = 0.2
CYCLE_SECONDS = 3.0  # for one fill of a bar of unknown length
GOES_ON = "Interrupted; the same command goes on from here."

logger = logging.getLogger(__name__)


@contextmanager
def ending(interrupted: str = "Interrupted.", *, at_once: bool = True) -> Iterator[None]:
    """Run a command to its end: an error is one sentence and a status.

    1 where something behind failed, 2 where something was asked wrongly. It ends `at_once` where a
    thread may still be loading a model, which would make an ordinary exit abort.
    """
    status = 0
    try:
        yield
    except QdrantMcpError as error:
        status = failed(error)
    except click.exceptions.Exit as done:
        status = done.exit_code
    except (KeyboardInterrupt, click.Abort) as error:  # Abort: a question had no answer
        if isinstance(error, click.Abort):
            click.echo(err=True)  # the question's line is still open
        show("")
        say(interrupted)
        status = INTERRUPTED
    sys.stdout.flush()
    if at_once:
        os._exit(status)
    if status:
        sys.exit(status)


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


def bar(share: float) -> str:
    """A bar that is filled as far as the share says."""
    filled = int(share * WIDTH)
    return f"[{'#' * filled}{'-' * (WIDTH - filled)}]"


def _go_on(text: str, passed: float) -> None:
    """Show what takes so many seconds by now, with a bar that fills again and again."""
    show(f"{bar(passed / CYCLE_SECONDS % 1)} {text} {passed:.0f} s")


def meanwhile(text: str, work: Callable[[], Result]) -> Result:
    """What `work` gives, done in a thread while a bar shows that something goes on."""
    pool, since = ThreadPoolExecutor(1), monotonic()
    done = pool.submit(work)
    try:
        while not wait([done], BAR_SECONDS).done:
            _go_on(text, monotonic() - since)
        return done.result()
    finally:
        show("")
        pool.shutdown(wait=False)


async def loaded(encoder: Any, seconds: float) -> bool:
    """Have a model loaded, and show its progress; whether it is ready within so many seconds."""
    encoder.start()
    since = monotonic()
    while not await encoder.ready(BAR_SECONDS):
        passed = monotonic() - since
        if encoder.state not in ("loading", "downloading") or passed > seconds:
            break
        _go_on(encoder.reason, passed)
    show("")
    return bool(encoder.state == "ready")


def env_file(command: Command) -> Command:
    """The command with the option, which may stand before a subcommand's name or after it."""
    return click.option(
        "--env-file",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_noted,
        help="Read settings from this file too. Default: .env in your own configuration folder.",
    )(command)


def _noted(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[KEY] = path


def load(*, serving: bool = False) -> "Settings":
    """The settings, and on stderr what the person may not expect of them. Raises ConfigError.

    Where it is for `serving`, logs are set up.
    """
    from mcp_server_qdrant.core import logs
    from mcp_server_qdrant.settings import environment as settings

    notes: list[str] = []
    tell: Callable[[str], None] = say
    try:
        read = settings.load(click.get_current_context().meta.get(KEY), notes.append)
        if serving:
            logs.configure(read.log_level, read.log_format)
            if read.log_format == "json":
                tell = logger.warning
    finally:
        for sentence in notes:
            tell(sentence)
    return read


def leave_folder() -> None:
    """Be nowhere that others choose. Libraries look for files where they run: numba, matplotlib."""
    os.chdir(sys.prefix)
