"""The command `eval`: measures the ranking on labelled queries."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.datatypes import Algorithm

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


def _names(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _algorithms(context: click.Context, option: click.Parameter, text: str) -> list[Algorithm]:
    named, kind = dict.fromkeys(_names(context, option, text)), click.Choice(ALGORITHMS)
    return [kind.convert(one, option, context) for one in named or ALGORITHMS]


def _writable(_: click.Context, __: click.Parameter, file: Path | None) -> Path | None:
    """The file, of which is known before anything is measured that it can be written."""
    try:
        if file:
            file.touch()
    except OSError as error:
        raise click.BadParameter(f"{file} cannot be written: {error.strerror}.") from error
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
    type=click.Path(resolve_path=True, path_type=Path),
    callback=_writable,
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
    from mcp_server_qdrant.evaluation.figures import report, score, tables
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
    scores = score(measured)
    for warning in measured.warnings:
        click.echo(f"Note: {warning.rstrip('.')}.", err=True)
    click.echo(tables(measured, scores))
    if output:
        _write(output, report(measured, scores))


def _write(output: Path, figures: dict[str, Any]) -> None:
    output.write_text(json.dumps(figures, indent=1, ensure_ascii=False), encoding="utf-8")
