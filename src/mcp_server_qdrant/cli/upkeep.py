"""The commands that work on whole collections while they are used: `upgrade`, `copy`, `describe`,
`accept-loss`, `rebuild`, `backup`, `restore` and `export`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import frame, visit
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError, UnknownCollection
from mcp_server_qdrant.core.expiry import NEVER, parse_expiry
from mcp_server_qdrant.core.lean import import_qdrant_client
from mcp_server_qdrant.core.notation import cite, cite_all, plural, printable
from mcp_server_qdrant.settings.environment import Settings

if TYPE_CHECKING:
    from mcp_server_qdrant.ingest.collections.export import Exported, Form
    from mcp_server_qdrant.ingest.collections.upgrade import Upgraded

Work = Callable[[Any, str], Awaitable[str]]  # (engine, collection) -> sentence on the result


def _absolute_place(_: click.Context, __: click.Parameter, where: str | None) -> str | None:
    """The URL, or the path made absolute."""
    return where if where is None or "://" in where else str(visit.absolute(where))


_PLACE: Any = {
    "metavar": "URL|PATH",
    "help": "Default: the engine of the settings.",
    "callback": _absolute_place,
}


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--model", help="Add the vectors of this model, and search with them.")
@click.option("--drop-old", is_flag=True, help="Remove the vectors of other models.")
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar="KEY[:TYPE]",
    help="Only index this payload key; TYPE is a Qdrant index type, by default keyword.",
)
@frame.as_command(frame.GOES_ON)
async def upgrade(
    collections: Sequence[str], model: str | None, indexes: Sequence[str], *, drop_old: bool
) -> None:
    """Prepare collections for hybrid search: add BM25 vectors in place, while they are in use.

    On a Qdrant server in strict mode, also add the indexes that searches need. After an
    interruption the next run continues.
    """
    if drop_old and not model:
        raise click.UsageError("--drop-old needs --model.")
    settings = _load_settings()
    from mcp_server_qdrant.app import upkeep
    from mcp_server_qdrant.app.models import model_metadata, open_encoders
    from mcp_server_qdrant.app.process import local_models

    pairs = (one.partition(":") for one in indexes)
    wanted = {key: kind or "keyword" for key, _, kind in pairs}
    encoders, progress = open_encoders(settings, local_models()), frame.Progress()

    async def work(engine: Any, name: str) -> str:
        made = await engine.create_missing_indexes(name, wanted)
        indexed = f"Indexed: {cite_all(made)}." if made else ""
        if wanted and not model:
            return f"{cite(name)}: {indexed or 'indexed already.'}"
        upgrades = upkeep.upgrades_of(engine, progress)
        if model:
            await frame.load_model(encoders.start_encoder(model))
            metadata = model_metadata(settings, encoders, model)
            done = await upgrades.model(
                name, encoders.start_encoder(model), metadata, drop=drop_old
            )
        else:
            done = await upgrades.keywords(name)
        return (
            f"{describe_upgrade(done, model, encoders.configured_model(name))} {indexed}".rstrip()
        )

    try:
        await _run_on_own_engine(settings, collections, work)
    finally:
        await encoders.close()


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--from", "origin", **_PLACE)
@click.option("--to", "goal", **_PLACE)
@frame.as_command(frame.GOES_ON)
async def copy(collections: Sequence[str], origin: str | None, goal: str | None) -> None:
    """Copy collections between engines, with ids, payloads and vectors unchanged.

    A PATH is a folder of this server, or of qdrant-client's local mode. After an interruption the
    next run continues.
    """
    settings = _load_settings()
    from mcp_server_qdrant.app import upkeep
    from mcp_server_qdrant.ingest.collections import copying

    if upkeep.engine_identity(origin, settings) == upkeep.engine_identity(goal, settings):
        raise RequestError("--from and --to must differ: name another engine with one of them.")
    if goal is None:
        upkeep.check_writable(settings)
    progress = frame.Progress()
    async with (
        upkeep.open_engine_at(origin, settings) as source,
        upkeep.open_engine_at(goal, settings, goal=True) as target,
    ):

        async def work(source: Any, name: str) -> str:
            total = await source.count(name)
            tell = partial(progress, name, total=total)
            written = await copying.copy(source, target, name, tell)
            if not written:
                return f"{cite(name)}: both hold the same {plural(total, 'point')}."
            return f"{cite(name)}: {plural(written, 'point')} copied; both hold {total:,}."

        await _run_on_each(source, collections, settings if None in (origin, goal) else None, work)


@click.command()
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@frame.as_command(frame.GOES_ON)
async def accept_loss(collections: Sequence[str]) -> None:
    """Accept that points are missing on the disk, and stop reporting them.

    For collections of the embedded engine that qdrant-collections shows as damaged.
    """

    async def work(engine: Any, name: str) -> str:
        return describe_loss(name, *await engine.accept_loss(name))

    await _run_on_own_engine(_load_settings(), collections, work)


@click.command()
@frame.as_command("Interrupted; the engine continues with it.")
async def rebuild() -> None:
    """Rebuild a damaged store of the embedded engine from everything that is still readable.

    The damaged files are kept in the folder `damaged` of QDRANT_LOCAL_PATH.
    """
    settings = _load_settings()
    from mcp_server_qdrant.app import upkeep

    done = await upkeep.rebuild(settings)
    for name, (left, lost) in done.items():
        click.echo(describe_rebuild(cite(name), left, lost))
    kept = printable(str(settings.local_path / "damaged"))
    click.echo(
        f"The damaged files are kept in {kept}: delete them when you are sure that nothing is "
        "missing."
    )


@click.command()
@click.argument("collection")
@click.argument("text", required=False)
@click.option(
    "--folder",
    "folders",
    metavar="PATH",
    multiple=True,
    help="A folder that it belongs to. Repeatable. Empty: none.",
)
@click.option("--expires", metavar="TIME", help="When new texts expire: 90 days, 1 year, never.")
@frame.as_command(frame.GOES_ON)
async def describe(
    collection: str, text: str | None, folders: Sequence[str], expires: str | None
) -> None:
    """Describe a collection, so that agents can choose it; an empty text removes the description.

    Clients that are started in its folder search it and store into it. --expires is for new texts
    without an expiry of their own; expired texts are kept, but no longer found.
    """
    if text is None and not folders and expires is None:
        raise click.UsageError("Give a text, --folder or --expires.")
    ends = parse_expiry(expires or "", datetime.now(UTC))
    places = [_existing_folder(one) for one in folders if one]

    async def work(engine: Any, name: str) -> str:
        said = []
        if text is not None:
            await engine.set_description(name, text.strip())
            said.append("described" if text.strip() else "description removed")
        if folders:
            await engine.set_folders(name, places)
            named = " and ".join(printable(str(one)) for one in places)
            said.append(f"belongs to {named or 'no folder'}")
        if expires is not None:
            after = expires.strip() if ends else ""
            await engine.set_expiry(name, after)
            said.append(f"new texts expire: {printable(after or NEVER)}")
        return f"{cite(name)}: {', '.join(said)}."

    await _run_on_own_engine(_load_settings(), [collection], work)


def _existing_folder(folder: str) -> Path:
    place = visit.absolute(folder).resolve()
    if not place.is_dir():
        raise click.UsageError(f"{place} is not a folder.")
    return place


_OF_BACKUPS = (
    click.Argument(["folder"], type=visit.GivenPath(path_type=Path)),
    click.Argument(
        ["collections"],
        nargs=-1,
        metavar="[COLLECTION...]",
        callback=lambda _, __, names: tuple(dict.fromkeys(names)),
    ),
    click.Option(["--overwrite"], is_flag=True, help="Replace what exists."),
)


@click.command(params=[*_OF_BACKUPS])
@frame.as_command("Interrupted; nothing was kept.")
async def backup(folder: Path, collections: Sequence[str], *, overwrite: bool) -> None:
    """Copy collections (default: all) into FOLDER, while they are in use.

    The folder appears when it is complete. For a Qdrant server, use its snapshots.
    """
    settings, tell, now = _load_settings(), frame.Progress(), datetime.now(UTC)
    from mcp_server_qdrant.app import upkeep

    _print_points(await upkeep.back_up(settings, folder, collections, now, tell, replace=overwrite))


@click.command(params=[*_OF_BACKUPS])
@frame.as_command("Interrupted; run it again with --overwrite.")
async def restore(folder: Path, collections: Sequence[str], *, overwrite: bool) -> None:
    """Restore collections (default: all) from the FOLDER of a backup, while others are in use.

    Each is restored as a whole. Without --overwrite, existing ones are skipped.
    """
    settings, tell = _load_settings(), frame.Progress()
    from mcp_server_qdrant.app import upkeep

    _print_points(await upkeep.restore(settings, folder, collections, tell, replace=overwrite))


@click.command()
@click.argument("collection")
@click.argument("folder", type=visit.GivenPath(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "jsonl"]),
    default="markdown",
    show_default=True,
    help="One Markdown file per text, or JSON lines.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing export.")
@frame.as_command("Interrupted; nothing was kept.")
async def export(collection: str, folder: Path, form: "Form", *, overwrite: bool) -> None:
    """Write the texts of a COLLECTION into FOLDER, for other programs, or to ingest them again.

    Ids, titles, tags, dates, metadata and supersessions are included. The folder appears when it
    is complete.
    """
    settings, tell = _load_settings(), frame.Progress()
    from mcp_server_qdrant.app import upkeep

    done = await upkeep.export_collection(
        settings, collection, folder, form, tell, replace=overwrite
    )
    frame.show_status("")
    click.echo(describe_export(collection, done))


def _print_points(points: Mapping[str, int]) -> None:
    frame.show_status("")
    for name, number in points.items():
        click.echo(f"{cite(name)}: {plural(number, 'point')}")
    click.echo(f"Done: {plural(len(points), 'collection')}.")


def _load_settings() -> Settings:
    """Load the settings, and import qdrant-client without what is not needed."""
    settings = frame.load_settings()
    import_qdrant_client()
    return settings


async def _run_on_own_engine(settings: Settings, collections: Sequence[str], work: Work) -> None:
    """Do the work on collections of the settings' engine."""
    from mcp_server_qdrant.app import upkeep

    upkeep.check_writable(settings)
    async with upkeep.open_engine_at(None, settings) as engine:
        await _run_on_each(engine, collections, settings, work)


async def _run_on_each(
    engine: Any, collections: Sequence[str], visible: Settings | None, work: Work
) -> None:
    """Do the work on every collection, even if others fail, and print each result.

    `visible` are the settings that restrict the collections; None: no restriction. Exits with the
    first non-zero status.
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
            frame.show_status("")
            click.echo(done)
        except QdrantMcpError as error:
            status = status or frame.print_error(error)
    if status:
        raise click.exceptions.Exit(status)


def describe_upgrade(done: "Upgraded", model: str | None, mapped: str | None = None) -> str:
    """The result of an upgrade; `mapped` is the collection's model in the settings."""
    got = f"the vectors of {model}" if model else "BM25 vectors"
    place = cite(done.collection)
    said = [f"{place}: all points already have {got}."]
    if done.points:
        said = [f"{place}: added {got} to {plural(done.points, 'point')}."]
    if done.textless:
        said.append(f"{plural(done.textless, 'point')} without a text left out.")
    if done.kept:
        said.append(
            f"Kept for other programs: {_names(done.kept)}; --drop-old removes old vectors."
        )
    if done.dropped:
        said.append(f"Removed: {_names(done.dropped)}.")
    if model and mapped and mapped != model:
        said.append(f"COLLECTION_MODELS still names {mapped} for it: change that.")
    return " ".join(said)


def describe_export(name: str, done: "Exported") -> str:
    """The result of an export."""
    said = [f"{cite(name)}: {plural(done.texts, 'text')} in {plural(done.files, 'file')}."]
    if done.textless:
        said.append(f"{plural(done.textless, 'point')} without a text left out.")
    if done.torn:
        said.append(f"{plural(done.torn, 'text')} incomplete: parts are missing in the collection.")
    return " ".join(said)


def describe_loss(name: str, lost: int, left: int) -> str:
    """The result of `accept-loss`."""
    if not lost:
        return f"{name}: no points are missing; it has {left:,}."
    return f"{name}: continues with {plural(left, 'point')}, without the {lost:,} that are missing."


def describe_rebuild(name: str, left: int, lost: int) -> str:
    """The result of a rebuild for a collection."""
    gone = f"{lost:,} {'is' if lost == 1 else 'are'} lost" if lost else "none is lost"
    return f"{name}: {plural(left, 'point')}, {gone}."


def _names(vectors: Sequence[str]) -> str:
    return ", ".join(cite(name) if name else "(unnamed)" for name in vectors)
