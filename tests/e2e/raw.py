"""A server process with a line-by-line client, so that a test can kill it at any moment."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, CompletedProcess, Popen
from typing import Any

from filelock import FileLock

from mcp_server_qdrant.hosting.reach import guess_path
from mcp_server_qdrant.hosting.rendezvous import Rendezvous
from tests import forked
from tests.hosts import alive
from tests.listening import await_answer, free_port
from tests.qdrant_server import URL, lent

COMMAND = (sys.executable, "-P", "-m", "mcp_server_qdrant")


class RawServer:
    """The server over stdio, after the handshake; -P, like the console script."""

    def __init__(
        self,
        env: dict[str, str],
        cwd: Path,
        options: Sequence[str] = ("-P",),
        popen: type[Popen] = forked.Popen,
        name: str = "raw",
    ) -> None:
        self.process = popen(
            [sys.executable, *options, "-m", "mcp_server_qdrant"],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=clean_environment(env),
            cwd=cwd,
            text=True,
            encoding="utf-8",
        )
        self._number = 0
        client = {"name": name, "version": "0"}
        self.hello = self.request(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client},
        )
        self.notify("notifications/initialized")

    def notify(self, method: str, **params: Any) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def cancel(self) -> None:
        """Cancel the last request, which then gets no response."""
        self.notify("notifications/cancelled", requestId=self._number)

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Send a request without waiting; returns its id."""
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def answer(self) -> dict[str, Any]:
        """The response to the last request. Raises EOFError if the server has ended."""
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise EOFError
            message = json.loads(line)
            answered = "result" in message or "error" in message
            if answered and message.get("id") == self._number:
                return message

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.send(method, params)
        return self.answer()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; returns its result."""
        message = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in message, message
        return message["result"]

    def _write(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self) -> tuple[int, str]:
        """Close the input; returns the exit status and the log."""
        if not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        log = self.process.stderr.read()
        status = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.process.stderr.close()
        return status, log


def run(env: dict[str, str], *words: object, cwd: Path | None = None) -> CompletedProcess[str]:
    """Run a command of ours to its end."""
    command = [*COMMAND, *map(str, words)]
    return forked.run(command, env=clean_environment(env), cwd=cwd, timeout=180)


def clean_environment(env: dict[str, str]) -> dict[str, str]:
    """This process's environment without the server's settings, plus `env`."""
    prefixes = (
        "QDRANT_",
        "FASTMCP_",
        "EMBEDDING_",
        "COLLECTION_",
        "FASTEMBED_",
        "TOOL_",
        "RERANK",
        "OPENAI_",
        "HTTP_",
        "METRICS_",
        "LOG_",
        "OTEL_",
        "TENANT_",
        "AUTH_",
        "SYNC_",
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
    return kept | {"HF_HUB_OFFLINE": "1"} | env


def settings_of(folder: Path, model_dir: Path, cache: Path) -> dict[str, str]:
    """Settings for the embedded engine in this folder, with the real model."""
    return {
        "QDRANT_LOCAL_PATH": str(folder / "engine"),
        "QDRANT_CACHE_PATH": str(cache),
        "EMBEDDING_MODEL_PATH": str(model_dir),
        "FASTMCP_LOG_LEVEL": "WARNING",
    }


@contextlib.contextmanager
def settings_on(
    engine: str, folder: Path, model_dir: Path, cache: Path
) -> Iterator[dict[str, str]]:
    """Settings with the real model, and the embedded engine or the tests' Qdrant server.

    The service is ended afterwards.
    """
    env = settings_of(folder, model_dir, cache)
    if engine == "edge":
        yield env
        end_service(folder / "engine")
        return
    assert URL
    del env["QDRANT_LOCAL_PATH"]  # nor a cache of what others stored there
    env |= {"QDRANT_URL": URL, "QDRANT_CACHE_PATH": str(folder / "cache")}
    with lent(URL):
        yield env
        place = Path(guess_path(env))
        end_service(place.parent, place.name)


def text_of(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"])


def service_pid(folder: Path, file: str = "service.json") -> int | None:
    """The pid that a folder's service published; None if it has ended."""
    found = Rendezvous.read(folder / file)
    return found.pid if found and alive(found.pid) else None


def _signal(pid: int | None, number: int) -> bool:
    """Send a signal to a process; False if there is none, or it has just ended."""
    try:
        if pid is not None:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    return pid is not None


def kill_service(folder: Path) -> bool:
    """Kill the service of a folder with SIGKILL; True if there was one."""
    return _signal(service_pid(folder), signal.SIGKILL)


def end_service(folder: Path, file: str = "service.json") -> None:
    """End the service of a folder, if there is one, and wait for its end."""
    pid = service_pid(folder, file)
    if _signal(pid, signal.SIGTERM):
        until = time.monotonic() + 60
        while alive(pid) and time.monotonic() < until:
            time.sleep(0.01)


def ended(folder: Path) -> FileLock:
    """Lock a folder and end its service; no other starts while the lock is held."""
    _signal(service_pid(folder), signal.SIGTERM)
    return FileLock(folder / "store.lock", timeout=60, poll_interval=0.002)


@contextlib.contextmanager
def serving(env: dict[str, str], transport: str, cwd) -> Iterator[tuple[str, Popen]]:
    """A server process that answers, and its address."""
    port = free_port()
    process = forked.Popen(
        [*COMMAND, "--transport", transport],
        env=clean_environment(env | {"FASTMCP_PORT": str(port)}),
        cwd=cwd,
        stderr=PIPE,
        stdin=DEVNULL,
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
