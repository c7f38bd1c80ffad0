"""Commands. The only place that exits and prints, to stderr: stdout is the stdio transport."""

import gc
import logging
import os
import signal
import sys

import click

from mcp_server_qdrant import __version__
from mcp_server_qdrant.errors import ConfigError

INTERRUPTED = 130


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND] [ARGS]...")
@click.option(
    "--transport",
    type=click.Choice(["stdio", "sse", "streamable-http"]),
    default="stdio",
    show_default=True,
    help="How clients connect.",
)
@click.version_option(__version__)
@click.pass_context
def main(context: click.Context, transport: str) -> None:
    """Serve all Qdrant collections to MCP clients. Settings come from the environment.

    Without a command it serves.
    """
    if context.invoked_subcommand is None:
        serve(transport)


def serve(transport: str) -> None:
    """Run the server; a wrong setting ends it with one sentence and status 2."""
    # What is imported now stays: collecting garbage among it would cost a tenth of the start.
    gc.disable()
    # Until the transport heeds signals itself: no traceback, whatever is being imported.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from mcp_server_qdrant import settings

    try:
        read = settings.load()
        logging.basicConfig(
            level=read.log_level,
            stream=sys.stderr,
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        )
        from mcp_server_qdrant.server import run

        run(read, transport)  # type: ignore[arg-type]
        # A model that is still being loaded, in a thread, would abort an orderly end.
        os._exit(0)
    except ConfigError as error:
        click.echo(f"mcp-server-qdrant: {error}", err=True)
        sys.exit(2)
