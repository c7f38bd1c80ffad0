"""The command `eval`: measures the ranking on labelled queries."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from mcp_server_qdrant.cli import frame, visit
from mcp_server_qdrant.core.datatypes import Algorithm
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import printable

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


def _split_names(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _algorithms(context: click.Context, option: click.Parameter, text: str) -> list[Algorithm]:
    named, kind = dict.fromkeys(_split_names(context, option, text)), click.Choice(ALGORITHMS)
    return [kind.convert(one, option, context) for one in named or ALGORITHMS]


def _check_folder(_: click.Context, __: click.Parameter, file: Path | None) -> Path | None:
    if file and not file.parent.is_dir():
        raise click.BadParameter(f"There is no folder {file.parent} to write to.")
    return file


@click.command("eval")
@click.option(
    "--queries", type=visit.GivenPath(path_type=Path), help="Labelled queries: a JSON list."
)
@click.option(
    "--why",
    nargs=2,
    metavar="QUESTION ID",
    help="Show the rank of the text with this id for the question, and what lowers it.",
)
@click.option(
    "--recall",
    is_flag=True,
    help="With --why: treat the question as a prompt to an agent in this folder.",
)
@click.option(
    "--collections",
    default="",
    callback=_split_names,
    help="Names or globs, separated by commas, instead of those in the queries.",
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
    type=visit.GivenPath(dir_okay=False, resolve_path=True, path_type=Path),
    callback=_check_folder,
    help="Write all figures to this file, query by query.",
)
@frame.as_command()
async def evaluate(
    queries: Path | None,
    why: tuple[str, str] | None,
    collections: tuple[str, ...],
    algorithms: Sequence[Algorithm],
    output: Path | None,
    *,
    recall: bool,
) -> None:
    """Measure the ranking on labelled queries, through the search of qdrant-find."""
    if (queries is None) == (why is None):
        raise click.UsageError("Give either --queries or --why.")
    if recall and not why:
        raise click.UsageError("--recall needs --why.")
    if why:
        await _explain(*why, collections, recall=recall)
        return
    assert queries is not None
    from mcp_server_qdrant.evaluation.figures import as_json, score, tables
    from mcp_server_qdrant.evaluation.labels import read_labels
    from mcp_server_qdrant.evaluation.run import measure

    labels = read_labels(queries)
    if collections:
        labels = [one.model_copy(update={"collections": collections}) for one in labels]
    settings, total = frame.load_settings(), len(labels) * len(algorithms)
    progress = frame.Progress()
    frame.leave_folder()
    async with frame.open_services(settings) as services:
        measured = await measure(
            services, labels, algorithms, progress=lambda done: progress("Queries", done, total)
        )
    frame.show_status("")
    for warning in measured.warnings:
        click.echo(f"Note: {warning.rstrip('.')}.", err=True)
    scores = score(measured)
    click.echo(tables(measured, scores))
    if output:
        _write(output, as_json(measured, scores))


async def _explain(
    question: str, wanted: str, collections: tuple[str, ...], *, recall: bool
) -> None:
    """Print why a text is or is not a result of a question, or is recalled in this folder."""
    settings = frame.load_settings()
    folder = frame.leave_folder()
    asked = SearchRequest(query=question, collections=collections or None)
    async with frame.open_services(settings) as services:
        await frame.load_model(services.encoders.default)
        said = (
            await services.why_not_recalled(question, wanted, folder)
            if recall and folder
            else await services.why_not(asked, wanted, folder=folder)
        )
        for sentence in said:
            click.echo(printable(sentence))


def _write(output: Path, figures: str) -> None:
    try:
        output.write_text(figures, "utf-8")
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}.") from error
