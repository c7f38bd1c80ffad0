"""`upgrade`, `copy`, `accept-loss`: what is done to whole collections, while they are used."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import settings as cli_settings
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError, UnknownCollection
from mcp_server_qdrant.core.notation import called

if TYPE_CHECKING:
    from mcp_server_qdrant.settings.environment import Settings

INTERRUPTED = 130
LOAD_SECONDS = 900.0  # a model may have to be downloaded
LINES = 10  # of progress for a collection, where it is no terminal


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--model", help="Give it the vectors of this model, and search by them.")
@click.option("--drop-old", is_flag=True, help="Remove the vectors of the models before.")
@click.option("--at", metavar="URL|PATH", help="Another engine than the settings name.")
@cli_settings.env_file
def upgrade(
    collections: Sequence[str],
    model: str | None,
    drop_old: bool,  # noqa: FBT001
    at: str | None,
) -> None:
    """Give collections what hybrid search needs: BM25 vectors, in place, while they are searched.

    Interrupted, the next run goes on where this one was.
    """
    if drop_old and not model:
        raise click.UsageError("--drop-old goes with --model.")
    _exit(lambda settings: _upgrade(settings, collections, model, drop_old, at))


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--from", "origin", metavar="URL|PATH", help="Default: the engine of the settings.")
@click.option("--to", "goal", metavar="URL|PATH", help="Default: the engine of the settings.")
@cli_settings.env_file
def copy(collections: Sequence[str], origin: str | None, goal: str | None) -> None:
    """Copy collections between engines: ids, payloads and vectors as they are.

    A PATH is a folder of this server, or of qdrant-client's local mode. Interrupted, the next run
    goes on where this one was.
    """
    if origin == goal:
        raise click.UsageError("--from and --to must differ.")
    _exit(lambda settings: _copy(settings, collections, origin, goal))


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@cli_settings.env_file
def accept_loss(collections: Sequence[str]) -> None:
    """Go on without points that are missing on the disk, and say no more about them.

    For collections of the embedded engine that qdrant-collections shows as damaged. One that has no
    data any more is forgotten.
    """
    _exit(lambda settings: _accept_loss(settings, collections))


def _exit(work: "Callable[[Settings], Coroutine[Any, Any, int]]") -> None:
    """Do the work and end: 1 where something behind failed, 2 where something was asked wrongly."""
    try:
        read = cli_settings.load()
        logging.basicConfig(
            level=logging.WARNING, stream=sys.stderr, format="mcp-server-qdrant: %(message)s"
        )
        status = asyncio.run(work(read))
    except QdrantMcpError as error:
        status = _failed(error)
    except KeyboardInterrupt:
        click.echo("mcp-server-qdrant: Interrupted; the next run goes on from here.", err=True)
        status = INTERRUPTED
    sys.stdout.flush()
    # A model that a thread is still loading would make an ordinary exit abort.
    os._exit(status)


def _failed(error: QdrantMcpError) -> int:
    click.echo(f"mcp-server-qdrant: {error}", err=True)
    return 1 if isinstance(error, BackendError) else 2


async def _each(collections: Sequence[str], one: Callable[[str], Coroutine[Any, Any, str]]) -> int:
    """Every collection, whatever became of the others; the first status that is not 0."""
    status = 0
    for name in dict.fromkeys(collections):
        try:
            click.echo(await one(name))
        except QdrantMcpError as error:
            status = status or _failed(error)
    return status


async def _upgrade(
    settings: "Settings",
    collections: Sequence[str],
    model: str | None,
    drop: bool,  # noqa: FBT001
    at: str | None,
) -> int:
    from mcp_server_qdrant.app import upkeep
    from mcp_server_qdrant.app.models import described, open_choice, open_encoders
    from mcp_server_qdrant.cli import upkeep_text

    progress = Progress()
    if at is None:
        upkeep.check_writable(settings)
    async with upkeep.engine(at, settings) as engine:
        upgrades = upkeep.upgrades_of(settings, engine, progress)
        encoders = open_encoders(settings)
        if model:
            await encoders.of(model).ready(LOAD_SECONDS)

        async def one(name: str) -> str:
            if at is None:
                upkeep.check_visible(name, settings)
            with progress:
                try:
                    if model:
                        metadata = described(settings, encoders, model)
                        done = await upgrades.model(name, encoders.of(model), metadata, drop=drop)
                    else:
                        done = await upgrades.keywords(name)
                except UnknownCollection as error:
                    raise upkeep.unknown(name, await engine.names()) from error
            mapped = open_choice(settings, encoders).mapped(name)
            return upkeep_text.upgraded(done, model, progress.seconds, mapped)

        return await _each(collections, one)


async def _copy(
    settings: "Settings",
    collections: Sequence[str],
    origin: str | None,
    goal: str | None,
) -> int:
    from mcp_server_qdrant.app import upkeep
    from mcp_server_qdrant.cli import upkeep_text

    progress = Progress()
    if goal is None:
        upkeep.check_writable(settings)
    async with (
        upkeep.source(origin, settings) as source,
        upkeep.engine(goal, settings, new=True) as target,
    ):

        async def one(name: str) -> str:
            if None in (origin, goal):
                upkeep.check_visible(name, settings)
            with progress:
                try:
                    total = await source.count(name)
                except UnknownCollection as error:
                    raise upkeep.unknown(name, await source.names()) from error
                written = await upkeep.copy(
                    source, target, name, lambda done: progress(name, done, total)
                )
            return upkeep_text.copied(name, written, total, progress.seconds)

        return await _each(collections, one)


async def _accept_loss(settings: "Settings", collections: Sequence[str]) -> int:
    from mcp_server_qdrant.app import upkeep
    from mcp_server_qdrant.cli import upkeep_text

    upkeep.check_writable(settings)
    async with upkeep.engine(None, settings) as engine:

        async def one(name: str) -> str:
            upkeep.check_visible(name, settings)
            try:
                return upkeep_text.accepted(name, *await engine.accept_loss(name))
            except UnknownCollection as error:
                raise upkeep.unknown(name, await engine.names()) from error

        return await _each(collections, one)


class Progress:
    """How far one collection is: a line of a terminal that changes, else some plain lines."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = 0.0
        self._tenth = 0
        self._line = sys.stderr.isatty()
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._since, self._tenth = self._clock(), 0

    def __exit__(self, *_: object) -> None:
        self.seconds = self._clock() - self._since
        if self._line:
            click.echo("\r\x1b[K", nl=False, err=True)

    def __call__(self, name: str, done: int, total: int) -> None:
        """So many points of so many are done."""
        if not total:
            return
        rate = done / max(self._clock() - self._since, 1e-3)
        left = f", {(total - done) / rate:.0f} s left" if rate and done < total else ""
        text = f"{called(name)}: {done:,} of {total:,} points, {rate:,.0f}/s{left}"
        tenth = LINES * done // total
        if self._line:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
        elif tenth > self._tenth or not done:
            self._tenth = tenth
            click.echo(text, err=True)
