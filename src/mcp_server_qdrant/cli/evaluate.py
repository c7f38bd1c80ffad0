"""The command `eval`: measures the ranking on labelled queries."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.errors import ConfigError

if TYPE_CHECKING:
    from mcp_server_qdrant.evaluation.labels import Label
    from mcp_server_qdrant.evaluation.run import Measured
    from mcp_server_qdrant.evaluation.sweep import Configuration
    from mcp_server_qdrant.settings.environment import Settings


@click.command("eval")
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    required=True,
    help="Labelled queries: a JSON list, JSON lines, or a BEIR folder.",
)
@click.option(
    "--collections",
    default="",
    help="Names or globs, separated by commas, in place of the queries' own.",
)
@click.option(
    "--algorithms",
    default="",
    help="Separated by commas; others are compared with the first.",
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=FIRST:LAST:STEP",
    help="Try these values of a parameter of qdrant-find, or NAME=VALUE,VALUE. Repeatable.",
)
@click.option(
    "-k",
    "--limit",
    type=click.IntRange(10, 100),
    default=10,
    show_default=True,
    help="Results per search.",
)
@click.option(
    "--json",
    "output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write all figures to this file, query by query.",
)
@frame.env_file
def evaluate(
    queries: Path,
    collections: str,
    algorithms: str,
    sweeps: Sequence[str],
    limit: int,
    output: Path | None,
) -> None:
    """Measure the ranking on labelled queries, through the search of qdrant-find."""
    output = output and output.absolute()
    with frame.ending():
        if output and not output.parent.is_dir():
            raise ConfigError(f"There is no folder {output.parent} to write to.")
        report = _evaluate(queries, _names(collections), _names(algorithms), sweeps, limit)
        if output:
            text = json.dumps(report, indent=1, ensure_ascii=False)
            try:
                output.write_text(text, encoding="utf-8")
            except OSError as error:
                raise ConfigError(f"{output} cannot be written: {error.strerror}.") from error


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _evaluate(
    path: Path,
    collections: tuple[str, ...],
    algorithms: Sequence[str],
    sweeps: Sequence[str],
    limit: int,
) -> dict[str, Any]:
    """Measure and print the tables; the report as data."""
    from mcp_server_qdrant.evaluation import text
    from mcp_server_qdrant.evaluation.labels import read
    from mcp_server_qdrant.evaluation.metrics import score
    from mcp_server_qdrant.evaluation.sweep import configurations

    labels = read(path)
    if collections:
        labels = [replace(label, collections=collections) for label in labels]
    ways = configurations(algorithms, sweeps)
    settings = frame.load()
    frame.leave_folder()
    measured = asyncio.run(_measured(settings, labels, ways, limit))
    frame.show("")
    scores = score(measured)
    for warning in measured.warnings:
        click.echo(f"Note: {warning.rstrip('.')}.", err=True)
    click.echo(text.tables(measured, scores))
    return text.report(measured, scores)


async def _measured(
    settings: "Settings", labels: "Sequence[Label]", ways: "Sequence[Configuration]", limit: int
) -> "Measured":
    """Search over the services that the server would open; nothing is written to them."""
    from mcp_server_qdrant.evaluation.run import measure

    total = len(labels) * len(ways)
    async with frame.opened(settings) as services:
        return await measure(
            services,
            labels,
            ways,
            limit=limit,
            searching=lambda done: frame.show(f"{done} of {total} queries"),
        )
