"""The commands that work on whole collections while they are used: `upgrade`, `copy`, `describe`,
`accept-loss`, `rebuild`, `backup` and `restore`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError, UnknownCollection
from mcp_server_qdrant.core.lean import import_qdrant_client
from mcp_server_qdrant.core.notation import amount, called, printable
from mcp_server_qdrant.settings.environment import Settings

if TYPE_CHECKING:
    from mcp_server_qdrant.ingest.collections.upgrade import Upgraded

Work = Callable[[Any, str], Awaitable[str]]  # with an engine, on a collection: what came of it


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--model", help="Give it the vectors of this model, and search by them.")
@click.option("--drop-old", is_flag=True, help="Remove the vectors of the models before.")
@frame.runs(frame.GOES_ON)
async def upgrade(collections: Sequence[str], model: str | None, *, drop_old: bool) -> None:
    """Give collections what hybrid search needs: BM25 vectors, in place, while they are searched.

    Interrupted, the next run goes on where this one was.
    """
    if drop_old and not model:
        raise click.UsageError("--drop-old goes with --model.")
    settings = _load()
    from mcp_server_qdrant.app import upkeep
    from mcp_server_qdrant.app.models import described, open_encoders

    encoders, progress = open_encoders(settings), frame.Progress()

    async def work(engine: Any, name: str) -> str:
        upgrades = upkeep.upgrades_of(settings, engine, progress)
        if model:
            await frame.loaded(encoders.of(model))
            metadata = described(settings, encoders, model)
            done = await upgrades.model(name, encoders.of(model), metadata, drop=drop_old)
        else:
            done = await upgrades.keywords(name)
        return upgraded(done, model, encoders.mapped(name))

    try:
        await _own(settings, collections, work)
    finally:
        await encoders.close()


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--from", "origin", metavar="URL|PATH", help="Default: the engine of the settings.")
@click.option("--to", "goal", metavar="URL|PATH", help="Default: the engine of the settings.")
@frame.runs(frame.GOES_ON)
async def copy(collections: Sequence[str], origin: str | None, goal: str | None) -> None:
    """Copy collections between engines: ids, payloads and vectors as they are.

    A PATH is a folder of this server, or of qdrant-client's local mode. Interrupted, the next run
    goes on where this one was.
    """
    settings = _load()
    from mcp_server_qdrant.app import upkeep
    from mcp_server_qdrant.ingest.collections import copying

    if upkeep.place(origin, settings) == upkeep.place(goal, settings):
        raise RequestError("--from and --to must differ.")
    if goal is None:
        upkeep.check_writable(settings)
    progress = frame.Progress()
    async with (
        upkeep.engine(origin, settings) as source,
        upkeep.engine(goal, settings, goal=True) as target,
    ):

        async def work(source: Any, name: str) -> str:
            total = await source.count(name)
            tell = partial(progress, name, total=total)
            written = await copying.copy(source, target, name, tell)
            if not written:
                return f"{called(name)}: both hold the same {amount(total, 'point')}."
            return f"{called(name)}: {amount(written, 'point')} copied; both hold {total:,}."

        await _each(source, collections, settings if None in (origin, goal) else None, work)


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@frame.runs(frame.GOES_ON)
async def accept_loss(collections: Sequence[str]) -> None:
    """Go on without points that are missing on the disk, and say no more about them.

    For collections of the embedded engine that qdrant-collections shows as damaged.
    """

    async def work(engine: Any, name: str) -> str:
        return accepted(name, *await engine.accept_loss(name))

    await _own(_load(), collections, work)


@click.command()
@frame.runs("Interrupted; the engine goes on with it.")
async def rebuild() -> None:
    """Rebuild the embedded engine's store from all that can still be read, where it is damaged.

    What was damaged is kept in the folder `damaged` of QDRANT_LOCAL_PATH.
    """
    settings = _load()
    from mcp_server_qdrant.app import upkeep

    done = await upkeep.rebuild(settings)
    for name, (left, lost) in done.items():
        click.echo(rebuilt(called(name), left, lost))
    kept = printable(str(settings.local_path / "damaged"))
    click.echo(f"The damaged files are kept in {kept}: delete them once you miss nothing.")


@click.command()
@click.argument("collection")
@click.argument("text", required=False)
@click.option("--folder", metavar="PATH", help="The folder that it belongs to; empty: to none.")
@frame.runs(frame.GOES_ON)
async def describe(collection: str, text: str | None, folder: str | None) -> None:
    """Say what a collection is about, so that agents can choose; an empty text takes it back.

    A client that is started in the collection's folder searches it, and stores into it, where no
    other is named.
    """
    if text is None and folder is None:
        raise click.UsageError("Give a text, or --folder.")
    place = _existing(folder) if folder else None

    async def work(engine: Any, name: str) -> str:
        said = []
        if text is not None:
            await engine.describe(name, text.strip())
            said.append("described" if text.strip() else "its description is gone")
        if folder is not None:
            await engine.assign(name, place)
            said.append(f"belongs to {printable(str(place)) if place else 'no folder'}")
        return f"{called(name)}: {', '.join(said)}."

    await _own(_load(), [collection], work)


def _existing(folder: str) -> Path:
    place = Path(folder).resolve()
    if not place.is_dir():
        raise click.UsageError(f"{place} is not a folder.")
    return place


_OF_BACKUPS = (
    click.Argument(
        ["folder"], type=click.Path(path_type=Path), callback=lambda _, __, path: path.absolute()
    ),
    click.Argument(
        ["collections"],
        nargs=-1,
        metavar="[COLLECTION...]",
        callback=lambda _, __, names: tuple(dict.fromkeys(names)),
    ),
    click.Option(["--overwrite"], is_flag=True, help="Replace what is there."),
)


@click.command(params=[*_OF_BACKUPS])
@frame.runs("Interrupted; nothing was kept.")
async def backup(folder: Path, collections: Sequence[str], *, overwrite: bool) -> None:
    """Copy collections (default: all) into FOLDER, while they are used.

    The folder is there once it is complete. A Qdrant server has snapshots of its own.
    """
    settings, tell, now = _load(), frame.Progress(), datetime.now(UTC)
    from mcp_server_qdrant.app import upkeep

    _done(await upkeep.back_up(settings, folder, collections, now, tell, replace=overwrite))


@click.command(params=[*_OF_BACKUPS])
@frame.runs("Interrupted; run it again with --overwrite.")
async def restore(folder: Path, collections: Sequence[str], *, overwrite: bool) -> None:
    """Bring collections (default: all) back from the FOLDER of a backup, while others are used.

    Each is back as a whole. Those that are there already are left alone without --overwrite.
    """
    settings, tell = _load(), frame.Progress()
    from mcp_server_qdrant.app import upkeep

    _done(await upkeep.restore(settings, folder, collections, tell, replace=overwrite))


def _done(points: Mapping[str, int]) -> None:
    frame.show("")
    for name, number in points.items():
        click.echo(f"{called(name)}: {amount(number, 'point')}")
    click.echo(f"Done: {amount(len(points), 'collection')}.")


def _load() -> Settings:
    """The settings; the libraries of the engines are imported lean."""
    settings = frame.load()
    import_qdrant_client()
    return settings


async def _own(settings: Settings, collections: Sequence[str], work: Work) -> None:
    """Work on collections of the engine that the settings name."""
    from mcp_server_qdrant.app import upkeep

    upkeep.check_writable(settings)
    async with upkeep.engine(None, settings) as engine:
        await _each(engine, collections, settings, work)


async def _each(
    engine: Any, collections: Sequence[str], visible: Settings | None, work: Work
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
                done = await work(engine, name)
            except UnknownCollection as error:
                raise upkeep.unknown(name, await engine.names()) from error
            frame.show("")
            click.echo(done)
        except QdrantMcpError as error:
            status = status or frame.failed(error)
    if status:
        raise click.exceptions.Exit(status)


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


def rebuilt(name: str, left: int, lost: int) -> str:
    """The result of a rebuild for a collection."""
    gone = f"{lost:,} {'is' if lost == 1 else 'are'} lost" if lost else "none is lost"
    return f"{name}: {amount(left, 'point')}, {gone}."


def _names(vectors: Sequence[str]) -> str:
    return ", ".join(called(name) if name else "(unnamed)" for name in vectors)
