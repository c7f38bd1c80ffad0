"""The commands `ingest` and `sync`: files into a collection."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import frame, visit
from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.notation import plural, printable

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services
    from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
    from mcp_server_qdrant.settings.environment import Settings

SHOW_SECONDS = 0.2
MB = 1_000_000


_OPTIONS = (
    click.Argument(
        ["paths"], nargs=-1, required=True, type=visit.GivenPath(path_type=Path), metavar="PATH…"
    ),
    click.Option(["--collection"], help="The target. Default: COLLECTION_NAME. Created if new."),
    click.Option(
        ["--include"],
        multiple=True,
        metavar="GLOB",
        help="Only these files; as in .gitignore. Repeatable.",
    ),
    click.Option(["--exclude"], multiple=True, metavar="GLOB", help="Not these files. Repeatable."),
    click.Option(["--name"], help="Name of the path in ids. Default: the folder's own."),
    click.Option(["--dry-run"], is_flag=True, help="Show what would be done, without doing it."),
    click.Option(
        ["--create"], is_flag=True, help="Create a collection even if its name resembles another's."
    ),
    click.Option(
        ["--max-size"],
        type=click.FloatRange(min=0.001),
        default=10.0,
        show_default=True,
        metavar="MB",
        help="Leave out larger files; for some formats, like PDF, the limit is 20 times as high.",
    ),
)


@click.command(params=[*_OPTIONS])
@frame.as_command(frame.GOES_ON)
async def ingest(**options: Any) -> None:
    """Store files in a collection; unchanged files are skipped.

    docs/files.md lists the formats. Hidden files and those that a .gitignore excludes are left out.
    """
    await _store(options, mirror=False)


@click.command(params=[*_OPTIONS])
@click.option("--watch", is_flag=True, help="Follow all changes until interrupted.")
@click.option("--keep", is_flag=True, help="Keep texts whose files are gone, as for sessions.")
@click.option("--empty", is_flag=True, help="Remove texts even if no file is left.")
@frame.as_command(frame.GOES_ON)
async def sync(*, watch: bool, keep: bool, **options: Any) -> None:
    """Mirror files in a collection: like ingest, but texts of files that are gone are removed.

    Only what ingest or sync stored from these paths is ever removed.
    """
    await _store(options, mirror=not keep, watch=watch)


async def _store(options: dict[str, Any], *, mirror: bool, watch: bool = False) -> None:
    """Run once; with `watch` also after every change, and again some time after a failure."""
    from mcp_server_qdrant.ingest.files.background import follow

    settings = frame.load_settings()
    request = _request(options, settings, mirror=mirror)
    async with frame.open_services(settings) as services:
        report = await sync_once(services, request)
        if watch:
            click.echo("Watching for changes; Ctrl-C ends it.", err=True)
            again = partial(sync_once, services, request, quiet=True)
            with contextlib.suppress(asyncio.CancelledError):  # an interrupt is the normal end
                await follow(request, again, lambda error: frame.print_message(str(error)), report)


def _request(options: dict[str, Any], read: "Settings", *, mirror: bool) -> "SyncRequest":
    """The request for these options. Raises ConfigError, RequestError."""
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


async def sync_once(
    services: "Services",
    request: "SyncRequest",
    before: "Report | None" = None,
    *,
    quiet: bool = False,
) -> "Report":
    """Run once, with progress and summary; returns the report.

    `quiet`: a run that changed nothing prints nothing.
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
    """Show the progress until cancelled."""
    progress = frame.Progress()
    try:
        while True:
            if report.share:
                progress(report.phase, report.share, 1)
            else:
                frame.show_status(printable(f"{report.phase} …"))
            await asyncio.sleep(SHOW_SECONDS)
    finally:
        frame.show_status("")


def summary(report: "Report", collection: str, *, dry_run: bool) -> Iterator[str]:
    """The result, or the plan of a dry run, in numbers; then all files not read, and why."""
    changes = (
        ("+", "new", report.new),
        ("~", "changed", report.changed),
        ("-", "removed", report.removed),
    )
    counts = ", ".join(f"{len(paths):,} {word}" for _, word, paths in changes)
    counts += f", {report.unchanged:,} unchanged, {len(report.problems):,} not read"
    if dry_run:
        yield f"{collection} (dry run): {counts}."
        for mark, _, paths in changes:
            for path in paths:
                was = f", moved from {report.moved[path]}" if path in report.moved else ""
                yield printable(f"  {mark} {path}{was}")
    else:
        done = f"; {plural(report.texts, 'text')}" if report.texts else ""
        yield f"{collection}: {counts}{done} in {report.seconds:,.1f} s."
    if not report.files and not report.problems:
        yield "There are no files to read here: hidden and ignored ones are left out."
    if report.pending:
        yield (
            "Only keywords find these texts for now; the server adds the vectors once the model is "
            "ready."
        )
    if report.masked:
        yield f"{plural(report.masked, 'secret')} masked in these texts."
    if report.notes:
        yield f"Stored, with a note ({len(report.notes):,}):"
        yield from (f"  {printable(path)} {note}" for path, note in report.notes)
    if report.problems:
        yield f"Not read ({len(report.problems):,}):"
    for problem in sorted(report.problems, key=lambda one: one.path):
        kept = " (its stored text is kept)" if problem.kept else ""
        yield f"  {printable(problem.path)} {problem.reason}{kept}"
