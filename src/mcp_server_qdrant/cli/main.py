"""Commands. The only place that exits and prints.

A server prints to stderr only, since stdout is the stdio transport; what a command was asked for
goes to stdout.
"""

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant import __version__
from mcp_server_qdrant.cli import ingest as cli_ingest
from mcp_server_qdrant.cli import settings as cli_settings
from mcp_server_qdrant.cli import token as cli_token
from mcp_server_qdrant.cli.upkeep import accept_loss, copy, upgrade
from mcp_server_qdrant.core.errors import BackendError, ConfigError, QdrantMcpError

if TYPE_CHECKING:
    from mcp_server_qdrant.app.start import Transport
    from mcp_server_qdrant.evaluation.labels import Label
    from mcp_server_qdrant.evaluation.run import Measured
    from mcp_server_qdrant.evaluation.sweep import Configuration
    from mcp_server_qdrant.settings.environment import Settings

INTERRUPTED = 130


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND] [ARGS]...")
@click.option(
    "--transport",
    type=click.Choice(["stdio", "sse", "streamable-http"]),
    default="stdio",
    show_default=True,
    help="How clients connect.",
)
@cli_settings.env_file
@click.version_option(__version__)
@click.pass_context
def main(context: click.Context, transport: "Transport") -> None:
    """Serve all Qdrant collections to MCP clients. Settings come from the environment and a file.

    Without a command it serves.
    """
    if context.invoked_subcommand is None:
        serve(transport)


main.add_command(upgrade)
main.add_command(copy)
main.add_command(accept_loss)


def serve(transport: "Transport") -> None:
    """Run the server; a wrong setting ends it with one sentence and status 2."""
    # What is imported now stays: collecting garbage among it would cost a tenth of the start.
    gc.disable()
    # Until the transport heeds signals itself: no traceback, whatever is being imported.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        read = cli_settings.load(serving=True)
        cli_settings.leave_folder()
        from mcp_server_qdrant.app.start import run

        def ready(address: str) -> None:
            if read.log_format == "text":
                click.echo(f"mcp-server-qdrant serves {address}", err=True)

        run(read, transport, ready)
        # A model that is still being loaded, in a thread, would abort an orderly end.
        os._exit(0)
    except ConfigError as error:
        click.echo(f"mcp-server-qdrant: {error}", err=True)
        sys.exit(2)


@main.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Default: any free one.")
@click.option("--open", "browse", is_flag=True, help="Open it in the browser.")
@cli_settings.env_file
def viz(port: int, browse: bool) -> None:  # noqa: FBT001
    """Look at the collections in a browser: a page for this machine only, that writes nothing."""

    def ready(address: str) -> None:
        click.echo(address)
        if browse:
            click.launch(address)

    try:
        read = cli_settings.load(serving=True)
        cli_settings.leave_folder()
        from mcp_server_qdrant.app.http import run_page

        run_page(read, port, ready)
        os._exit(0)
    except ConfigError as error:
        click.echo(f"mcp-server-qdrant: {error}", err=True)
        sys.exit(2)


main.add_command(cli_ingest.ingest)
main.add_command(cli_ingest.sync)
main.add_command(cli_token.token)


@main.command("eval")
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    required=True,
    help="Labelled queries: a JSON list, JSON lines, or a BEIR folder.",
)
@click.option(
    "--collections", default="", help="Names or globs by comma, in place of the queries' own."
)
@click.option("--algorithms", default="", help="By comma; others are compared with the first.")
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
@cli_settings.env_file
def evaluate(
    queries: Path,
    collections: str,
    algorithms: str,
    sweeps: Sequence[str],
    limit: int,
    output: Path | None,
) -> None:
    """Measure the ranking on labelled queries, through the very search of qdrant-find."""
    status = 0
    output = output and output.absolute()
    try:
        if output and not output.parent.is_dir():
            raise ConfigError(f"There is no folder {output.parent} to write to.")
        report = _evaluate(queries, _by_comma(collections), _by_comma(algorithms), sweeps, limit)
        if output:
            output.write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")
    except QdrantMcpError as error:
        status = _said(str(error), 1 if isinstance(error, BackendError) else 2)
    except OSError as error:
        status = _said(f"{output} cannot be written: {error.strerror}.", 2)
    except KeyboardInterrupt:
        status = _said("Interrupted.", INTERRUPTED)
    sys.stdout.flush()
    # A model that a thread is still loading would make an ordinary exit abort.
    os._exit(status)


def _said(sentence: str, status: int) -> int:
    _progress("")
    click.echo(f"mcp-server-qdrant: {sentence}", err=True)
    return status


def _by_comma(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _evaluate(
    path: Path,
    collections: tuple[str, ...],
    algorithms: Sequence[str],
    sweeps: Sequence[str],
    limit: int,
) -> dict[str, Any]:
    """Measure and print the tables; the report as data."""
    from mcp_server_qdrant.evaluation import text as evaluate_text
    from mcp_server_qdrant.evaluation.labels import read
    from mcp_server_qdrant.evaluation.metrics import require_ranx, score
    from mcp_server_qdrant.evaluation.sweep import configurations

    require_ranx()
    labels = read(path)
    if collections:
        labels = [replace(label, collections=collections) for label in labels]
    ways = configurations(algorithms, sweeps)
    settings = cli_settings.load()
    cli_settings.leave_folder()
    measured = asyncio.run(_measured(settings, labels, ways, limit))
    _progress("Computing the metrics; the first time takes about half a minute.")
    scores = score(measured)
    _progress("")
    for warning in measured.warnings:
        click.echo(f"Note: {warning.rstrip('.')}.", err=True)
    click.echo(evaluate_text.tables(measured, scores))
    return evaluate_text.report(measured, scores)


async def _measured(
    settings: "Settings", labels: "Sequence[Label]", ways: "Sequence[Configuration]", limit: int
) -> "Measured":
    """Search over the services that the server would open; nothing is written to them."""
    from mcp_server_qdrant.app.server import open_lazily
    from mcp_server_qdrant.evaluation.run import measure

    # Every query is new to a server, so that none finds its vector in the cache.
    changed = {"qdrant_read_only": True, "embedding_cache_size": 0}
    services = await open_lazily(settings.model_copy(update=changed))
    total = len(labels) * len(ways)
    try:
        return await measure(
            services,
            labels,
            ways,
            limit=limit,
            searching=lambda done: _progress(f"{done} of {total} queries"),
        )
    finally:
        await services.close()


def _progress(text: str) -> None:
    """What is going on now, in one line of a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)
