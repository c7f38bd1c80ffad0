"""The commands `ingest` and `sync`: files into a collection."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.notation import amount, printable

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services
    from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
    from mcp_server_qdrant.settings.environment import Settings

SHOW_SECONDS = 0.2
MB = 1_000_000


_OPTIONS = (
    click.Argument(
        ["paths"], nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH…"
    ),
    click.Option(
        ["--collection"], help="Where to. Default: COLLECTION_NAME. Made where it is new."
    ),
    click.Option(
        ["--include"],
        multiple=True,
        metavar="GLOB",
        help="Only these files; as in .gitignore. Repeatable.",
    ),
    click.Option(["--exclude"], multiple=True, metavar="GLOB", help="Not these files. Repeatable."),
    click.Option(["--name"], help="Name of the path in ids. Default: the folder's own."),
    click.Option(["--dry-run"], is_flag=True, help="Say what would be done, and do nothing."),
    click.Option(
        ["--create"], is_flag=True, help="Make a collection whose name is like another's."
    ),
    click.Option(
        ["--max-size"],
        type=click.FloatRange(min=0.001),
        default=10.0,
        show_default=True,
        metavar="MB",
        help="Leave larger files out; of some formats, as PDF, those 20 times as large.",
    ),
)


@click.command(params=[*_OPTIONS])
@frame.runs(frame.GOES_ON)
async def ingest(**options: Any) -> None:
    """Store files in a collection; those stored already and unchanged are left alone.

    Text in any format that docs/files.md lists. What a .gitignore excludes is left out, and so are
    hidden files.
    """
    await _store(options, mirror=False)


@click.command(params=[*_OPTIONS])
@click.option("--watch", is_flag=True, help="Go on, and follow every change until interrupted.")
@click.option("--keep", is_flag=True, help="Remove nothing that is gone, as of sessions.")
@click.option("--empty", is_flag=True, help="Remove files even where none is left of all.")
@frame.runs(frame.GOES_ON)
async def sync(*, watch: bool, keep: bool, **options: Any) -> None:
    """Make a collection the mirror of files: like ingest, and what is gone is removed.

    Only what ingest or sync stored from these paths is ever removed.
    """
    await _store(options, mirror=not keep, watch=watch)


async def _store(options: dict[str, Any], *, mirror: bool, watch: bool = False) -> None:
    """One run, and where it is to `watch` one after every change, and a while after what failed."""
    from mcp_server_qdrant.ingest.files.background import follow

    settings = frame.load()
    request = _request(options, settings, mirror=mirror)
    async with frame.opened(settings) as services:
        report = await once(services, request)
        if watch:
            click.echo("Watching for changes; Ctrl-C ends it.", err=True)
            again = partial(once, services, request, quiet=True)
            with contextlib.suppress(asyncio.CancelledError):  # an interrupt is its end
                await follow(request, again, lambda error: frame.say(str(error)), report)


def _request(options: dict[str, Any], read: "Settings", *, mirror: bool) -> "SyncRequest":
    """The request that the options make. Raises ConfigError, RequestError."""
    from mcp_server_qdrant.ingest.files.state import SyncRequest
    from mcp_server_qdrant.ingest.files.walk import sources

    collection = options["collection"] or read.collection_name
    if collection is None:
        raise ConfigError("Name a collection with --collection, or set COLLECTION_NAME.")
    if read.qdrant_read_only:
        raise ConfigError("QDRANT_READ_ONLY is set: nothing can be stored.")
    return SyncRequest(
        sources=tuple(sources(options["paths"], options["name"])),
        collection=collection,
        selection=Selection(options["include"], options["exclude"]),
        mirror=mirror,
        dry_run=options["dry_run"],
        create=options["create"],
        empty=options.get("empty", False),
        patient=True,
        max_bytes=int(options["max_size"] * MB),
    )


async def once(
    services: "Services",
    request: "SyncRequest",
    before: "Report | None" = None,
    *,
    quiet: bool = False,
) -> "Report":
    """One run with its progress and summary; its report.

    Where it is to be `quiet`, a run that changed nothing prints nothing.
    """
    from mcp_server_qdrant.ingest.files.state import Report

    report = Report()
    showing = asyncio.ensure_future(_show(report))
    try:
        await services.sync(request, report, before)
    finally:
        showing.cancel()
        await asyncio.wait([showing])
    if not quiet or report.new or report.changed or report.removed:
        click.echo("\n".join(summary(report, request.collection, dry_run=request.dry_run)))
        sys.stdout.flush()
    return report


async def _show(report: "Report") -> None:
    """Show on a terminal how far it is, until it is cancelled."""
    progress = frame.Progress()
    try:
        while sys.stderr.isatty():
            if report.share:
                progress(report.phase, report.share, 1)
            else:
                frame.show(printable(f"{report.phase} …"))
            await asyncio.sleep(SHOW_SECONDS)
    finally:
        frame.show("")


def summary(report: "Report", collection: str, *, dry_run: bool) -> Iterator[str]:
    """The result, or the plan, in numbers; then every file that was not read, and why."""
    changes = (
        ("+", "new", report.new),
        ("~", "changed", report.changed),
        ("-", "removed", report.removed),
    )
    counts = ", ".join(f"{len(paths):,} {word}" for _, word, paths in changes)
    counts += f", {report.unchanged:,} unchanged, {len(report.problems):,} not read"
    if dry_run:
        yield f"{collection}: would be {counts}."
        for mark, _, paths in changes:
            yield from (f"  {mark} {printable(path)}" for path in paths)
    else:
        done = f"; {amount(report.texts, 'text')}" if report.texts else ""
        yield f"{collection}: {counts}{done} in {report.seconds:,.1f} s."
    if not report.files and not report.problems:
        yield "There is no file here that is wanted: hidden and ignored ones are left out."
    if report.pending:
        yield "Found by keywords for now; the server adds the vectors once the model is there."
    if report.masked:
        yield f"{amount(report.masked, 'secret')} in these texts masked."
    if report.notes:
        yield f"Stored, with a note ({len(report.notes):,}):"
        yield from (f"  {printable(path)} {note}" for path, note in report.notes)
    if report.problems:
        yield f"Not read ({len(report.problems):,}):"
    for problem in sorted(report.problems, key=lambda one: one.path):
        kept = " (what was stored of it stays)" if problem.kept else ""
        yield f"  {printable(problem.path)} {problem.reason}{kept}"
