"""A server process spoken to line by line, so that a test can kill it at any moment."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from tests import forked


class RawServer:
    """The server over stdio, past the handshake; -P as the console script has it."""

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
        """Cancel the last request; nothing answers it any more."""
        self.notify("notifications/cancelled", requestId=self._number)

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Send a request without waiting; its number."""
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def answer(self) -> dict[str, Any]:
        """The answer to the last request. Raises EOFError where the server has gone."""
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
        """A tool's result."""
        message = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in message, message
        return message["result"]

    def _write(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """As the kernel does it: no last words."""
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self) -> tuple[int, str]:
        """End of input; the exit status and what was logged."""
        if not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        log = self.process.stderr.read()
        status = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.process.stderr.close()
        return status, log


def clean_environment(env: dict[str, str]) -> dict[str, str]:
    """This process's environment without any setting of the server, and with `env`."""
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
    """The embedded engine in this folder, the real model."""
    return {
        "QDRANT_LOCAL_PATH": str(folder / "engine"),
        "QDRANT_CACHE_PATH": str(cache),
        "EMBEDDING_MODEL_PATH": str(model_dir),
        "FASTMCP_LOG_LEVEL": "WARNING",
    }


def text_of(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"])


def host_pid(folder: Path) -> int | None:
    """The engine host that serves a folder, by what it published; None where it has gone."""
    try:
        pid = int(json.loads((folder / "engine-host.json").read_text())["pid"])
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError):
        return None
    return pid
