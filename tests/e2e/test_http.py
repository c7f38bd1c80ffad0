"""The real server over streamable-http and SSE."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests import forked
from tests.e2e.raw import COMMAND, clean_environment
from tests.listening import await_answer, free_port

pytestmark = pytest.mark.model(False)


@contextlib.contextmanager
def serving(env: dict[str, str], transport: str, cwd) -> Iterator[tuple[str, subprocess.Popen]]:
    """A server process that answers, and its address."""
    port = free_port()
    process = forked.Popen(
        [*COMMAND, "--transport", transport],
        env=clean_environment(env | {"FASTMCP_PORT": str(port)}),
        cwd=cwd,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        await_answer(address, process)
        yield address, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        process.stderr.close()
