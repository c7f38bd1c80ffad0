"""Foreign clients against this server: the MCP Inspector's CLI and an mcp 1.x client.

    python benchmarks/clients_check.py [--model-cache PATH] [--mcp1-python PATH] [--no-inspector]

Each lists the tools, stores a text and finds it, over stdio and over streamable-http. Prints one
line per check and ends with 1 when one failed. The Inspector needs node and npx; the 1.x client
is installed into build/mcp1 when no Python is given that has it.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import servers
from processes import await_end

INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
MCP1 = "mcp==1.30.0"
TOOLS = {"qdrant-find", "qdrant-store", "qdrant-get", "qdrant-collections"}
TEXT = "The ladder stands in the shed, left of the mower."
SECONDS = 120


class Checks:
    """Runs checks, prints each outcome, remembers whether all were fine."""

    def __init__(self) -> None:
        self.failed = 0

    def run(self, name: str, check: Callable[[], str]) -> None:
        """Print whether `check` was fine and the sentence it returned."""
        began = time.perf_counter()
        try:
            outcome, said = "ok    ", check()
        except (AssertionError, KeyError, ValueError, OSError, subprocess.SubprocessError) as e:
            outcome, said = "not ok", f"{type(e).__name__}: {e}"
            self.failed += 1
        print(f"{outcome} {name} ({time.perf_counter() - began:.1f} s): {said[:300]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    parser.add_argument("--mcp1-python", type=Path, help="Python that has mcp 1.x")
    parser.add_argument("--no-inspector", action="store_true")
    args = parser.parse_args()
    cache = servers.model_cache(args.model_cache)
    mcp1 = mcp1_python(args.mcp1_python)
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        server = servers.ours(Path(folder, "data"), cache)
        try:
            check_all(checks, server, mcp1, inspector=not args.no_inspector)
        finally:
            await_end(server.mark)
    sys.exit(1 if checks.failed else 0)


def check_all(checks: Checks, server: servers.Contestant, mcp1: Path, *, inspector: bool) -> None:
    """Every client over stdio, then over HTTP."""
    with serving(server) as url:
        for transport, target in (("stdio", list(server.command)), ("http", [url])):
            checks.run(f"mcp 1.x, {transport}", lambda t=target: check_mcp1(server, mcp1, t))
            if not inspector:
                continue
            for era in ("legacy", "modern"):
                name = f"inspector {era}, {transport}"
                cli = Inspector(server, target, transport, era)
                checks.run(f"{name}: tools/list", cli.lists_tools)
                checks.run(f"{name}: qdrant-store", cli.stores)
                checks.run(f"{name}: qdrant-find", cli.finds)
                checks.run(f"{name}: a tool error", cli.refuses)


def check_mcp1(server: servers.Contestant, python: Path, target: Sequence[str]) -> str:
    """The 1.x client lists, stores and finds."""
    script = Path(__file__).with_name("mcp1_client.py")
    done = subprocess.run(
        [str(python), str(script), *target],
        env=server.environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    answer = json.loads(done.stdout)
    assert set(answer["tools"]) >= TOOLS, f"tools: {answer['tools']}"
    for call in ("store", "find"):
        assert not answer[call]["error"], answer[call]["text"]
    assert "blue door" in answer["find"]["text"], answer["find"]["text"]
    assert answer["find"]["structured"], "no structured content"
    return f"mcp {answer['client']}, protocol {answer['protocol']}"


class Inspector:
    """The Inspector's command line against one target."""

    def __init__(
        self, server: servers.Contestant, target: Sequence[str], transport: str, era: str
    ) -> None:
        env = server.environment()
        settings = [f"{k}={v}" for k, v in env.items() if k not in os.environ]
        flags = [part for setting in settings for part in ("-e", setting)]
        over = ["--transport", "http"] if transport == "http" else flags
        self._command = ["npx", "-y", INSPECTOR, "--cli", *target, *over, "--protocol-era", era]

    def lists_tools(self) -> str:
        """All tools are there and their schemas are portable."""
        answer = self._run("--method", "tools/list", "--strict")
        names = {tool["name"] for tool in answer["tools"]}
        assert names >= TOOLS, f"tools: {names}"
        return f"{len(names)} tools"

    def stores(self) -> str:
        """A text with metadata is stored."""
        answer = self._call("qdrant-store", f"information={TEXT}", 'metadata={"place": "shed"}')
        return answer["content"][0]["text"]

    def finds(self) -> str:
        """The stored text is found."""
        answer = self._call("qdrant-find", "query=where is the ladder", "limit=3")
        assert any("ladder" in text for text in servers.our_texts(answer)), answer
        return f"{len(servers.our_texts(answer))} results"

    def refuses(self) -> str:
        """An unknown collection is a tool error, not an empty answer."""
        done = self._done("--method", "tools/call", "--tool-name", "qdrant-find",
                          "--tool-arg", "query=x", "collection_name=nowhere")  # fmt: skip
        assert done.returncode == 5, f"exit {done.returncode}: {done.stdout} {done.stderr[-500:]}"
        return "exit 5"

    def _call(self, tool: str, *arguments: str) -> dict[str, Any]:
        pairs = [part for argument in arguments for part in ("--tool-arg", argument)]
        return self._run("--method", "tools/call", "--tool-name", tool, *pairs)

    def _run(self, *words: str) -> dict[str, Any]:
        done = self._done(*words)
        assert done.returncode == 0, f"exit {done.returncode}: {done.stdout} {done.stderr[-500:]}"
        return json.loads(done.stdout[done.stdout.index("{") :])

    def _done(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *words], capture_output=True, text=True, timeout=SECONDS, check=False
        )


@contextmanager
def serving(server: servers.Contestant) -> Iterator[str]:
    """The server over streamable-http on a free port of this machine; yields its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**server.environment(), "FASTMCP_PORT": str(port)}
    command = [*server.command, "--transport", "streamable-http"]
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(20)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until the port answers. Raises OSError when the server ended or took a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise OSError("the server does not listen")


def mcp1_python(given: Path | None) -> Path:
    """The Python that has mcp 1.x; made in build/mcp1 when none is given."""
    if given:
        return given
    python = servers.BUILD / "mcp1" / "bin" / "python"
    if not python.exists():
        print(f"installing {MCP1} into build/mcp1 ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(servers.BUILD / "mcp1")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", MCP1], check=True)
    return python


if __name__ == "__main__":
    if not shutil.which("npx") and "--no-inspector" not in sys.argv:
        sys.exit("npx is not there: install node, or pass --no-inspector")
    main()
