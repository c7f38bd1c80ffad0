"""The command itself, which serves, and the page.

A server prints to stderr only, since stdout is the stdio transport; what a command was asked for
goes to stdout.
"""

import gc
import os
import secrets
import signal
from contextlib import suppress
from typing import Literal

import click

from mcp_server_qdrant import __version__
from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.cli.doctor import doctor
from mcp_server_qdrant.cli.evaluate import evaluate
from mcp_server_qdrant.cli.history import history
from mcp_server_qdrant.cli.ingest import ingest, sync
from mcp_server_qdrant.cli.init import init
from mcp_server_qdrant.cli.token import token
from mcp_server_qdrant.cli.upkeep import (
    accept_loss,
    backup,
    copy,
    describe,
    rebuild,
    restore,
    upgrade,
)
from mcp_server_qdrant.core.disk import write_atomically

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

    Without a command it serves.
    """
    if context.invoked_subcommand is None:
        serve(transport)
    else:
        gc.enable()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def serve(transport: Transport) -> None:
    """Run the server; a wrong setting ends it with one sentence and status 2."""
    with frame.ending():
        read, folder = frame.load(serving=True), frame.leave_folder()
        if transport == "stdio" and read.qdrant_folder is None:
            read = read.model_copy(update={"qdrant_folder": folder})

        def ready(address: str, page: str | None) -> None:
            also = f", the page at {page}" if page else ""
            if read.log_format == "text":
                click.echo(f"mcp-server-qdrant serves {address}{also}", err=True)

        if transport == "stdio":
            from mcp_server_qdrant.app import stdio

            stdio.run(read)
        else:
            from mcp_server_qdrant.app import http

            http.run(read, transport, ready)
        # A model that is still being loaded, in a thread, would abort an orderly end.
        os._exit(0)


@click.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Default: any free one.")
@click.option("--open", "browse", is_flag=True, help="Open it in the browser.")
def viz(port: int, *, browse: bool) -> None:
    """Look at the collections in a browser: a page for you on this machine, that writes nothing.

    It needs the key in the address that is printed.
    """

    def ready(_: str, page: str | None) -> None:
        click.echo(page)
        with suppress(OSError):
            if browse:  # by way of a file: others can see the arguments of the browser
                file = read.cache_path / "viz.html"
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_atomically(file, f'<meta http-equiv="refresh" content="0;url={page}">')
                click.launch(file.as_uri())

    with frame.ending():
        alone = {"fastmcp_host": "127.0.0.1", "fastmcp_port": port, "qdrant_read_only": True}
        read = frame.load(serving=True).model_copy(update=alone)
        frame.leave_folder()
        from mcp_server_qdrant.app import http

        http.run(read, "streamable-http", ready, secrets.token_urlsafe())
        os._exit(0)


@main.command()
@click.argument("folder", metavar="QDRANT_RECALL_PATH")
def recall(folder: str) -> None:
    """Print what a running server finds for a hook of Claude Code, which is read from stdin.

    Nothing where no server is running, or nothing fits. `init --recall` sets it up.
    """
    from mcp_server_qdrant.cli.recall import run

    run(folder)


COMMANDS = (
    *(init, doctor, evaluate, ingest, sync, token, viz),
    *(upgrade, copy, describe, accept_loss, rebuild, backup, restore, history),
)
for command in COMMANDS:
    command.params.append(frame.ENV_FILE)
    main.add_command(command)
