"""Runs the commands of other processes inside the service, each in its own thread."""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.app import logs
from mcp_server_qdrant.cli.route import HOSTED, find_command
from mcp_server_qdrant.cli.visit import Visit, VisitLog, install_streams
from mcp_server_qdrant.core.errors import QdrantMcpError, contained

if TYPE_CHECKING:
    from mcp_server_qdrant.app.service import Command


def run_commands(commands: Callable[[], click.Group]) -> "Command":
    """Prepare this process to run the commands of others, each with its own streams.

    `commands` is called in a thread when a command arrives.
    """
    logging.getLogger().addHandler(logs.set_up_command_handler(VisitLog()))
    install_streams()

    async def serve(
        hello: Mapping[str, Any], lines: asyncio.StreamReader, tell: Callable[..., None]
    ) -> int:
        return await serve_command(await asyncio.to_thread(commands), hello, lines, tell)

    return serve


async def serve_command(
    commands: click.Group,
    hello: Mapping[str, Any],
    lines: asyncio.StreamReader,
    tell: Callable[..., None],
) -> int:
    """Run the command of a connection and return its status. A disconnect interrupts it.

    `hello` is the pipe's first message, `lines` are the following ones, and `tell` sends it a
    message, from any thread. Environment and folder come from the caller's context.
    """
    visit = Visit(tell, hello.get("terminal") or {})
    done = Future[int]()

    def work() -> None:
        status = 1
        try:
            status = run_in_service(commands, hello.get("argv") or [], visit)
        finally:
            done.set_result(status)

    threading.Thread(target=copy_context().run, args=(work,), daemon=True).start()
    hearing = asyncio.ensure_future(_await_interrupt(lines, visit))
    try:
        return await asyncio.shield(asyncio.wrap_future(done))
    finally:
        hearing.cancel()
        visit.interrupt()  # if it is still running


async def _await_interrupt(lines: asyncio.StreamReader, visit: Visit) -> None:
    """Interrupt the command when its visitor says so or disconnects."""
    with suppress(OSError):
        await lines.readline()
    visit.interrupt()


def run_in_service(commands: click.Group, arguments: Sequence[str], visit: Visit) -> int:
    """Run a command in this thread with the output of a separate process; returns its status."""
    columns = max(min(int(visit.terminal.get("columns") or 80), 80) - 2, 50)  # click's default
    with visit.enter():
        try:
            with contained():
                return _run(commands, arguments, columns)
        except QdrantMcpError as error:
            traceback.print_exception(error.__cause__ or error, file=sys.stderr)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(bool(end.code))
        except KeyboardInterrupt:
            click.echo("Aborted!", err=True)
        return 1


def _run(commands: click.Group, arguments: Sequence[str], columns: int) -> int:
    try:
        if find_command(arguments) not in HOSTED:
            raise click.UsageError("This command is not run by a service.")
        name = "mcp-server-qdrant"
        done = commands.main([*arguments], name, standalone_mode=False, terminal_width=columns)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    return done or 0  # None, or the status of an Exit
