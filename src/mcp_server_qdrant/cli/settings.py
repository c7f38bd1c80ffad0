"""What every command shares: the option --env-file, and reading the settings."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from mcp_server_qdrant.settings.environment import Settings

Command = TypeVar("Command", bound=Callable[..., Any])
KEY = f"{__name__}.env_file"

logger = logging.getLogger(__name__)


def _noted(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[KEY] = path


def env_file(command: Command) -> Command:
    """The command with the option, which may stand before a subcommand's name or after it."""
    return click.option(
        "--env-file",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_noted,
        help="Read settings from this file too. Default: .env in your own configuration folder.",
    )(command)


def load(*, serving: bool = False) -> "Settings":
    """The settings, and on stderr what the person may not expect of them. Raises ConfigError.

    Where it is for `serving`, logs are set up.
    """
    from mcp_server_qdrant.core import logs
    from mcp_server_qdrant.settings import environment as settings

    said: list[str] = []
    style = "text"
    try:
        read = settings.load(click.get_current_context().meta.get(KEY), said.append)
        if serving:
            style = read.log_format
            logs.configure(read.log_level, read.log_format)
    finally:
        for sentence in said:
            if style == "json":
                logger.warning(sentence)
            else:
                click.echo(f"mcp-server-qdrant: {sentence}", err=True)
    return read


def leave_folder() -> None:
    """Be nowhere that others choose. Libraries look for files where they run: numba, matplotlib."""
    os.chdir(sys.prefix)
