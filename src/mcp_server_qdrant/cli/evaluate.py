"""The command `eval`: measures the ranking on labelled queries."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.datatypes import Algorithm
from mcp_server_qdrant.core.errors import ConfigError

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


def _names(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _algorithms(context: click.Context, option: click.Parameter, text: str) -> list[Algorithm]:
    named, kind = dict.fromkeys(_names(context, option, text)), click.Choice(ALGORITHMS)
    return [kind.convert(one, option, context) for one in named or ALGORITHMS]


def _beside_others(_: click.Context, __: click.Parameter, file: Path | None) -> Path | None:
    if file and not file.parent.is_dir():
        raise click.BadParameter(f"There is no folder {file.parent} to write to.")
    return file


@click.command("eval")
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    required=True,
    help="Labelled queries: a JSON list.",
)
@click.option(
    "--collections",
    default="",
    callback=_names,
    help="Names or globs, separated by commas, in place of the queries' own.",
)
@click.option(
    "--algorithms",
    default=",".join(ALGORITHMS),
    show_default=True,
    callback=_algorithms,
    help="Separated by commas; others are compared with the first.",
)
@click.option(
    "--json",
    "output",
    type=click.Path(dir_okay=False, resolve_path=True, path_type=Path),
    callback=_beside_others,
    help="Write all figures to this file, query by query.",
)
@frame.runs()
async def evaluate(
    queries: Path,
    collections: tuple[str, ...],
    algorithms: Sequence[Algorithm],
    output: Path | None,
) -> None:
    """Measure the ranking on labelled queries, through the search of qdrant-find."""
    from mcp_server_qdrant.evaluation.figures import as_json, score, tables
    from mcp_server_qdrant.evaluation.labels import read_labels
    from mcp_server_qdrant.evaluation.run import measure

    labels = read_labels(queries)
    if collections:
        labels = [one.model_copy(update={"collections": collections}) for one in labels]
    settings, total = frame.load(), len(labels) * len(algorithms)
    frame.leave_folder()
    async with frame.opened(settings) as services:
        measured = await measure(
            services,
            labels,
            algorithms,
            searching=lambda done: frame.show(f"{done} of {total} queries"),
        )
    frame.show("")
    for warning in measured.warnings:
        click.echo(f"Note: {warning.rstrip('.')}.", err=True)
    scores = score(measured)
    click.echo(tables(measured, scores))
    if output:
        _write(output, as_json(measured, scores))


def _write(output: Path, figures: str) -> None:
    try:
        output.write_text(figures, "utf-8")
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}.") from error
