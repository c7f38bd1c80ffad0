"""The main command, which runs the server, and `viz`.

A server prints only to stderr, because stdout is the stdio transport; commands print their results
to stdout.
"""

import gc
import os
import secrets
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal

import click

from mcp_server_qdrant import __version__
from mcp_server_qdrant.cli import frame, visit
from mcp_server_qdrant.cli.doctor import doctor, examine
from mcp_server_qdrant.cli.evaluate import evaluate
from mcp_server_qdrant.cli.history import history
from mcp_server_qdrant.cli.ingest import ingest, sync
from mcp_server_qdrant.cli.init import first_search, init
from mcp_server_qdrant.cli.token import token
from mcp_server_qdrant.cli.upkeep import (
    accept_loss,
    backup,
    copy,
    describe,
    export,
    rebuild,
    restore,
    upgrade,
)
from mcp_server_qdrant.core.disk import write_atomically
from mcp_server_qdrant.settings.environment import Settings

Transport = Literal["stdio", "sse", "streamable-http"]


@click.group(
    invoke_without_command=True, subcommand_metavar="[COMMAND] [ARGS]...", params=[frame.ENV_FILE]
)
@click.option(
    "--transport",
    type=click.Choice(["stdio", "sse", "streamable-http"]),
    default="stdio",
    show_default=True,
    help="How clients connect.",
)
@click.version_option(__version__)
@click.pass_context
def main(context: click.Context, transport: Transport) -> None:
    """Serve all Qdrant collections to MCP clients. Settings come from the environment and a file.

    Without a command the server runs.
    """
    if context.invoked_subcommand is None:
        serve(transport)
    elif visit.current() is None:
        gc.enable()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def serve(transport: Transport) -> None:
    """Run the server; an invalid setting ends it with one sentence and status 2."""
    with frame.ending():
        read, folder = frame.load(serving=True), frame.leave_folder()

        def ready(address: str, page: str | None) -> None:
            also = f", the page at {page}" if page else ""
            if read.log_format == "text":
                click.echo(f"mcp-server-qdrant serves {address}{also}", err=True)

        if transport == "stdio":
            from mcp_server_qdrant.app import stdio

            stdio.run(read, folder)
        else:
            _serve_http(read, transport, ready)
        os._exit(0)


def _serve_http(
    read: Settings,
    transport: Literal["sse", "streamable-http"],
    ready: Callable[[str, str | None], None],
    key: str | None = None,
) -> None:
    from mcp_server_qdrant.app import http
    from mcp_server_qdrant.app.place import take_over
    from mcp_server_qdrant.cli.hosted import run_commands

    if visit.current() is not None:  # the service owns the store and serves pipes
        http.run(read, transport, ready, lambda: None, None, key, visit.run)
        return
    http.run(read, transport, ready, partial(take_over, read), run_commands(lambda: main), key)
    # A thread that is still loading a model would make a normal exit abort.
    os._exit(0)


@click.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Default: any free one.")
@click.option("--open", "browse", is_flag=True, help="Open it in the browser.")
def viz(port: int, *, browse: bool) -> None:
    """Show the collections in a browser, on a read-only page that is served on this machine.

    Open the printed address: it contains the page's key.
    """

    def ready(_: str, page: str | None) -> None:
        click.echo(page)
        with suppress(OSError):
            if browse:  # through a file, because other users can see process arguments
                file = read.cache_path / "viz.html"
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_atomically(file, f'<meta http-equiv="refresh" content="0;url={page}">')
                click.launch(file.as_uri())

    with frame.ending():
        alone = {"fastmcp_host": "127.0.0.1", "fastmcp_port": port, "qdrant_read_only": True}
        read = frame.load(serving=True).model_copy(update=alone)
        frame.leave_folder()
        _serve_http(read, "streamable-http", ready, secrets.token_urlsafe())


@main.command()
@click.argument("folder", metavar="QDRANT_RECALL_PATH")
def recall(folder: str) -> None:
    """Read a hook of a coding client from stdin, and print what a running server finds for it.

    Prints nothing if no server is running or nothing fits. `init --recall` sets it up.
    """
    from mcp_server_qdrant.cli.recall import run

    run(folder)


COMMANDS = (
    *(init, doctor, evaluate, ingest, sync, token, viz),
    *(upgrade, copy, describe, accept_loss, rebuild, backup, restore, export, history),
    *(examine, first_search),
)
for command in COMMANDS:
    command.params.append(frame.ENV_FILE)
    main.add_command(command)
