"""The commands `backup` and `restore`: whole collections to a folder and back."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.notation import amount, called


def _arguments(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments and options of both commands."""
    for option in (
        frame.env_file,
        click.option("--overwrite", is_flag=True, help="Replace what is there."),
        click.argument("collections", nargs=-1, metavar="[COLLECTION...]"),
        click.argument("folder", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


@click.command()
@_arguments
def backup(folder: Path, collections: Sequence[str], overwrite: bool) -> None:  # noqa: FBT001
    """Copy collections (default: all) into FOLDER, while they are used.

    The folder is there once it is complete. A Qdrant server has snapshots of its own.
    """
    with frame.ending("Interrupted; nothing was kept."):
        settings = frame.load()
        from mcp_server_qdrant.app.backup import back_up

        chosen, now = list(dict.fromkeys(collections)), datetime.now(UTC)
        place = folder.absolute()
        bars = frame.Bars()
        _done(bars, asyncio.run(back_up(settings, place, chosen, now, bars, replace=overwrite)))


@click.command()
@_arguments
def restore(folder: Path, collections: Sequence[str], overwrite: bool) -> None:  # noqa: FBT001
    """Bring collections (default: all) back from the FOLDER of a backup, while others are used.

    Each is back as a whole. Those that are there already are left alone without --overwrite.
    """
    with frame.ending("Interrupted; run it again with --overwrite."):
        settings = frame.load()
        from mcp_server_qdrant.app.backup import restore as bring_back

        chosen, place = list(dict.fromkeys(collections)), folder.absolute()
        bars = frame.Bars()
        _done(bars, asyncio.run(bring_back(settings, place, chosen, bars, replace=overwrite)))


def _done(bars: frame.Bars, points: Mapping[str, int]) -> None:
    bars.end()
    for name, number in points.items():
        click.echo(f"{called(name)}: {amount(number, 'point')}")
    click.echo(f"Done: {amount(len(points), 'collection')}.")
