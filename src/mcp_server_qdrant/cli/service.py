"""The program that a pipe starts: it becomes the service of a store, or reports why not.

    python -m mcp_server_qdrant.cli.service [--env-file FILE]

Its stdout has lines of JSON for the pipe: `say`, and finally `ready`, `exit`, or `alone` if it
cannot be reached, so that the pipe has to serve its client itself.
"""

import asyncio
import errno
import gc
import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from click import Group

from mcp_server_qdrant.app.place import rendezvous_file, take_when_free
from mcp_server_qdrant.core.errors import BackendError, EngineUnavailable, QdrantMcpError
from mcp_server_qdrant.settings import environment

LONGEST_LOG = 1 << 20  # bytes
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main() -> None:
    """Run the service, then exit; exits at once if there is one already."""
    env_file = Path(sys.argv[2]) if sys.argv[1:2] == ["--env-file"] else None
    try:
        settings = environment.load(env_file)
    except QdrantMcpError as error:
        report_and_exit(error)
    at = rendezvous_file(settings)
    os.umask(0o077)
    try:
        lock = take_when_free(settings)
    except QdrantMcpError as error:
        report_and_exit(error)
    if lock is None:
        report(ready=str(at))
        os._exit(0)
    # Import little before the lock is held: after a crash every pipe starts this program.
    from mcp_server_qdrant.app import logs
    from mcp_server_qdrant.app.service import run
    from mcp_server_qdrant.cli.hosted import run_commands

    try:
        log_to(at.with_suffix(".log"))
        logs.configure("WARNING", "text")
        command = run_commands(commands)
        asyncio.run(run(settings, lock, command, lambda path: report(ready=str(path))))
    except OSError as error:  # it cannot publish its address
        if error.errno in NO_ROOM:  # no process could open the store
            report_and_exit(
                EngineUnavailable("The service could not be started: the disk is full.")
            )
        report(alone=True)
        raise
    lock.release()
    os._exit(0)  # threads may block in a read; do not wait for them


def commands() -> Group:
    """The commands, imported on first use."""
    found: Group = import_module("mcp_server_qdrant.cli.main").main
    return found


def report(**said: Any) -> None:
    """Write a line for the pipe that started this process."""
    with suppress(OSError):  # the pipe is gone
        os.write(1, f"{json.dumps(said)}\n".encode())


def report_and_exit(error: QdrantMcpError) -> None:
    """Report an error and the exit status of a command with this error, and exit."""
    report(say=f"mcp-server-qdrant: {error}\n")
    report(exit=1 if isinstance(error, BackendError) else 2)
    os._exit(0)


def log_to(path: Path) -> None:
    """Redirect stderr to the service's log, which is truncated if it is long."""
    long = path.exists() and path.stat().st_size > LONGEST_LOG
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if long else os.O_APPEND)
    log = os.open(path, flags, 0o600)
    os.dup2(log, 2)


if __name__ == "__main__":
    gc.disable()  # collections during imports would only slow the start
    main()
