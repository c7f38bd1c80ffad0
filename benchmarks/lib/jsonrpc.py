"""A bare MCP client over stdio, so that no client library's cost is in a measurement.

Newline-delimited JSON-RPC with the initialize handshake of protocol 2025-06-18, which every
server understands. One request at a time; notifications of the server are skipped.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROTOCOL = "2025-06-18"


class ServerFailed(Exception):
    """The server ended, did not answer in time, or answered with an error."""


class StdioServer:
    """A server process and the one connection to it."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, stderr: Path
    ) -> None:
        self.started = time.perf_counter()
        self._log = stderr
        with stderr.open("wb") as log:
            self.process = subprocess.Popen(
                list(command),
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._buffer = b""
        self._last_id = 0

    @property
    def age(self) -> float:
        """Seconds since the process was spawned."""
        return time.perf_counter() - self.started

    def handshake(self) -> dict[str, Any]:
        """Say hello; returns the server's answer."""
        client = {"name": "benchmark", "version": "1"}
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        answer = self.request("initialize", params)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool. Raises ServerFailed for a tool error as well."""
        result = self.request("tools/call", {"name": tool, "arguments": dict(arguments)})
        if result.get("isError"):
            raise ServerFailed(f"{tool}: {result['content']}")
        return result

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, timeout: float = 120
    ) -> dict[str, Any]:
        """Send one request and wait for its answer. Raises ServerFailed."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}}
        self._send(message)
        deadline = time.perf_counter() + timeout
        while True:
            answer = json.loads(self._line(deadline))
            if answer.get("id") == self._last_id and "method" not in answer:
                if "error" in answer:
                    raise ServerFailed(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer and "id" in answer:  # a request of the server: nothing to offer
                error = {"code": -32601, "message": "not supported"}
                self._send({"jsonrpc": "2.0", "id": answer["id"], "error": error})

    def stop(self, timeout: float = 15) -> float:
        """Close its stdin as a client does; returns the seconds it took to end."""
        began = time.perf_counter()
        self.process.stdin.close()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        return time.perf_counter() - began

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as e:
            raise ServerFailed(self._last_words()) from e

    def _line(self, deadline: float) -> bytes:
        out = self.process.stdout.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.perf_counter()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise ServerFailed(f"no answer in time\n{self._last_words()}")
            read = os.read(out, 1 << 20)
            if not read:
                raise ServerFailed(f"the server ended\n{self._last_words()}")
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]
