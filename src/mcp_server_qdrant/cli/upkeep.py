"""The commands that work on whole collections while they are used: `upgrade`, `copy`, `describe`,
`accept-loss`, `backup` and `restore`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError, UnknownCollection
from mcp_server_qdrant.core.notation import amount, called, printable

if TYPE_CHECKING:
    from mcp_server_qdrant.ingest.collections.upgrade import Upgraded
    from mcp_server_qdrant.settings.environment import Settings


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--model", help="Give it the vectors of this model, and search by them.")
@click.option("--drop-old", is_flag=True, help="Remove the vectors of the models before.")
@frame.env_file
def upgrade(
    collections: Sequence[str],
    model: str | None,
    drop_old: bool,  # noqa: FBT001
) -> None:
    """Give collections what hybrid search needs: BM25 vectors, in place, while they are searched.

    Interrupted, the next run goes on where this one was.
    """
    if drop_old and not model:
        raise click.UsageError("--drop-old goes with --model.")
    _run(lambda settings: _upgrade(settings, collections, model, drop=drop_old))


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--from", "origin", metavar="URL|PATH", help="Default: the engine of the settings.")
@click.option("--to", "goal", metavar="URL|PATH", help="Default: the engine of the settings.")
@frame.env_file
def copy(collections: Sequence[str], origin: str | None, goal: str | None) -> None:
    """Copy collections between engines: ids, payloads and vectors as they are.

    A PATH is a folder of this server, or of qdrant-client's local mode. Interrupted, the next run
    goes on where this one was.
    """
    _run(lambda settings: _copy(settings, collections, origin, goal))


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@frame.env_file
def accept_loss(collections: Sequence[str]) -> None:
    """Go on without points that are missing on the disk, and say no more about them.

    For collections of the embedded engine that qdrant-collections shows as damaged.
    """

    async def work(engine: Any, name: str) -> str:
        return accepted(name, *await engine.accept_loss(name))

    _run(lambda settings: _own(settings, collections, work))


@click.command()
@click.argument("collection")
@click.argument("text", required=False)
@click.option("--folder", metavar="PATH", help="The folder that it belongs to; empty: to none.")
@frame.env_file
def describe(collection: str, text: str | None, folder: str | None) -> None:
    """Say what a collection is about, so that agents can choose; an empty text takes it back.

    A client that is started in the collection's folder searches it, and stores into it, where no
    other is named.
    """
    if text is None and folder is None:
        raise click.UsageError("Give a text, or --folder.")
    place = Path(folder).resolve() if folder else None
    if place and not place.is_dir():
        raise click.UsageError(f"{place} is not a folder.")

    async def work(engine: Any, name: str) -> str:
        said = []
        if text is not None:
            await engine.describe(name, text.strip())
            said.append("described" if text.strip() else "its description is gone")
        if folder is not None:
            await engine.assign(name, place)
            said.append(f"belongs to {printable(str(place)) if place else 'no folder'}")
        return f"{called(name)}: {', '.join(said)}."

    _run(lambda settings: _own(settings, [collection], work))


_of_backups = frame.options(
    click.argument("folder", type=click.Path(path_type=Path)),
    click.argument("collections", nargs=-1, metavar="[COLLECTION...]"),
    click.option("--overwrite", is_flag=True, help="Replace what is there."),
    frame.env_file,
)


@click.command()
@_of_backups
def backup(folder: Path, collections: Sequence[str], overwrite: bool) -> None:  # noqa: FBT001
    """Copy collections (default: all) into FOLDER, while they are used.

    The folder is there once it is complete. A Qdrant server has snapshots of its own.
    """
    place, chosen = folder.absolute(), list(dict.fromkeys(collections))

    async def work(settings: "Settings") -> None:
        from mcp_server_qdrant.app.upkeep import back_up

        tell, now = frame.Progress(), datetime.now(UTC)
        _done(await back_up(settings, place, chosen, now, tell, replace=overwrite))

    _run(work, "Interrupted; nothing was kept.")


@click.command()
@_of_backups
def restore(folder: Path, collections: Sequence[str], overwrite: bool) -> None:  # noqa: FBT001
    """Bring collections (default: all) back from the FOLDER of a backup, while others are used.

    Each is back as a whole. Those that are there already are left alone without --overwrite.
    """
    place, chosen = folder.absolute(), list(dict.fromkeys(collections))

    async def work(settings: "Settings") -> None:
        from mcp_server_qdrant.app import upkeep

        tell = frame.Progress()
        _done(await upkeep.restore(settings, place, chosen, tell, replace=overwrite))

    _run(work, "Interrupted; run it again with --overwrite.")


def _done(points: Mapping[str, int]) -> None:
    frame.show("")
    for name, number in points.items():
        click.echo(f"{called(name)}: {amount(number, 'point')}")
    click.echo(f"Done: {amount(len(points), 'collection')}.")


def _run(
    work: "Callable[[Settings], Coroutine[Any, Any, None]]", interrupted: str = frame.GOES_ON
) -> None:
    with frame.ending(interrupted):
        settings = frame.load()
        from mcp_server_qdrant.core.lean import import_qdrant_client

        import_qdrant_client()
        asyncio.run(work(settings))


async def _each(
    collections: Sequence[str],
    visible: "Settings | None",
    names: Callable[[], Awaitable[Sequence[str]]],
    work: Callable[[str], Awaitable[str]],
) -> None:
    """Work on every collection, even if others fail, and print each result.

    The settings tell which are `visible`; None: all that there are. Ends with the first status that
    is not 0.
    """
    from mcp_server_qdrant.app import upkeep

    status = 0
    for name in dict.fromkeys(collections):
        try:
            if visible:
                upkeep.check_visible(name, visible)
            try:
                done = await work(name)
            except UnknownCollection as error:
                raise upkeep.unknown(name, await names()) from error
            frame.show("")
            click.echo(done)
        except QdrantMcpError as error:
            status = status or frame.failed(error)
    if status:
        raise click.exceptions.Exit(status)


async def _upgrade(
    settings: "Settings", collections: Sequence[str], model: str | None, *, drop: bool
) -> None:
    from mcp_server_qdrant.app import upkeep
    from mcp_server_qdrant.app.models import described, open_choice, open_encoders

    upkeep.check_writable(settings)
    async with upkeep.engine(None, settings) as engine:
        upgrades = upkeep.upgrades_of(settings, engine, frame.Progress())
        encoders = open_encoders(settings)
        if model:
            await frame.loaded(encoders.of(model))

        async def work(name: str) -> str:
            if model:
                metadata = described(settings, encoders, model)
                done = await upgrades.model(name, encoders.of(model), metadata, drop=drop)
            else:
                done = await upgrades.keywords(name)
            return upgraded(done, model, open_choice(settings, encoders).mapped(name))

        await _each(collections, settings, engine.names, work)


async def _copy(
    settings: "Settings", collections: Sequence[str], origin: str | None, goal: str | None
) -> None:
    from mcp_server_qdrant.app import upkeep
    from mcp_server_qdrant.ingest.collections import copying

    progress = frame.Progress()
    if upkeep.place(origin, settings) == upkeep.place(goal, settings):
        raise RequestError("--from and --to must differ.")
    if goal is None:
        upkeep.check_writable(settings)
    async with (
        upkeep.source(origin, settings) as source,
        upkeep.engine(goal, settings, new=True) as target,
    ):

        async def work(name: str) -> str:
            total = await source.count(name)
            tell = partial(progress, name, total=total)
            written = await copying.copy(source, target, name, tell)
            if not written:
                return f"{called(name)}: both hold the same {amount(total, 'point')}."
            return f"{called(name)}: {amount(written, 'point')} copied; both hold {total:,}."

        visible = settings if None in (origin, goal) else None
        await _each(collections, visible, source.names, work)


async def _own(
    settings: "Settings",
    collections: Sequence[str],
    work: Callable[[Any, str], Awaitable[str]],
) -> None:
    """Work on collections of the engine that the settings name."""
    from mcp_server_qdrant.app import upkeep

    upkeep.check_writable(settings)
    async with upkeep.engine(None, settings) as engine:
        await _each(collections, settings, engine.names, partial(work, engine))


def upgraded(done: "Upgraded", model: str | None, mapped: str | None = None) -> str:
    """The result of an upgrade; `mapped` is the collection's model in the settings."""
    got = f"the vectors of {model}" if model else "keywords"
    place = called(done.collection)
    said = [f"{place}: all points had {got} already."]
    if done.points:
        said = [f"{place}: {amount(done.points, 'point')} got {got}."]
    if done.textless:
        have = "has" if done.textless == 1 else "have"
        said.append(f"{done.textless:,} {have} no text to make them of.")
    if done.kept:
        said.append(
            f"Kept for other programs: {_names(done.kept)}; --drop-old removes what is old."
        )
    if done.dropped:
        said.append(f"Removed: {_names(done.dropped)}.")
    if model and mapped and mapped != model:
        said.append(f"COLLECTION_MODELS still names {mapped} for it: change that.")
    return " ".join(said)


def accepted(name: str, lost: int, left: int) -> str:
    """The result of accepting a loss."""
    if not lost:
        return f"{name}: no points are missing; it has {left:,}."
    return f"{name}: goes on with {amount(left, 'point')}, without the {lost:,} that are missing."


def _names(vectors: Sequence[str]) -> str:
    return ", ".join(called(name) if name else "(unnamed)" for name in vectors)
