"""How the two servers are started, filled and asked, for every benchmark that drives one."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from http_caller import Caller
from jsonrpc import StdioServer
from processes import MARK, await_end

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
OFFICIAL = "mcp-server-qdrant==0.8.1"
COLLECTION = "notes"
LIMIT = 10  # the official server's own default


@dataclass(frozen=True)
class Contestant:
    """A server to measure: the command, the folder it serves and how it is asked."""

    name: str
    command: Sequence[str]
    folder: Path
    model_cache: Path
    arguments: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def start(self) -> StdioServer:
        """Spawn it; its stderr goes to build/bench/logs."""
        logs = BUILD / "bench" / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return StdioServer(self.command, self.environment(), logs, logs / f"{self.name}.log")

    def environment(self) -> dict[str, str]:
        """All it sees of the environment: nothing of the caller's settings."""
        kept = {k: os.environ[k] for k in ("PATH", "HOME", "LANG") if k in os.environ}
        return {
            **kept,
            "QDRANT_LOCAL_PATH": str(self.folder),
            "FASTEMBED_CACHE_PATH": str(self.model_cache),
            "HF_HUB_OFFLINE": "1",
            MARK: self.mark,
            **self.env,
        }

    def find(self, server: StdioServer, query: str) -> dict[str, Any]:
        """One qdrant-find with this contestant's arguments."""
        return server.call("qdrant-find", {"query": query, **self.arguments})


def official(python: Path, folder: Path, model_cache: Path) -> Contestant:
    """The official server: one collection, its default of ten results."""
    command = [str(python.with_name("mcp-server-qdrant"))]
    env = {"COLLECTION_NAME": COLLECTION}
    return Contestant("official", command, folder, model_cache, {}, env)


def ours(folder: Path, model_cache: Path, arguments: Mapping[str, Any] | None = None) -> Contestant:
    """Our server, asked for as much as the official one gives: ten results with whole texts."""
    asked = {"limit": LIMIT, "mode": "full"} if arguments is None else arguments
    command = [sys.executable, "-m", "mcp_server_qdrant"]
    env = {"COLLECTION_NAME": COLLECTION}
    if path := os.environ.get("PYTHONPATH"):
        env["PYTHONPATH"] = path  # the very code that the benchmark runs with
    return Contestant("ours", command, folder, model_cache, asked, env)


@contextmanager
def over_http(folder: Path, model_cache: Path, **own: str) -> Iterator[tuple[int, str]]:
    """Our server over streamable-http, once it is ready: its port and its mark.

    The store is in `folder / "engine"`, `own` are further settings. Its stderr goes to
    build/bench/logs.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    contestant = ours(folder / "engine", model_cache)
    environment = contestant.environment() | {
        "FASTMCP_PORT": str(port),
        "QDRANT_CACHE_PATH": str(folder / "cache"),
        **own,
    }
    environment.pop("COLLECTION_NAME")
    logs = BUILD / "bench" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    command = [*contestant.command, "--transport", "streamable-http"]
    with (logs / "http.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stderr=log)
    try:
        asyncio.run(Caller(port).reachable("/readyz"))
        yield port, contestant.mark
    finally:
        process.terminate()
        try:
            if status := process.wait(60):
                print(f"SIGTERM: status {status}")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        await_end(contestant.mark)


def service_pid(folder: Path) -> int | None:
    """The process of the service of an embedded store, by what it published; None without one."""
    try:
        return int(json.loads((folder / "service.json").read_text())["pid"])
    except (OSError, ValueError):
        return None


def optimises(folder: Path) -> bool:
    """True while the engine of this folder makes an optimised copy of a store."""
    return any(len([*space.glob("g-*")]) > 1 for space in folder.glob("spaces/*"))


def official_python(given: Path | None) -> Path:
    """The Python that has the official server; made in build/official when none is given."""
    if given:
        return given
    python = BUILD / "official" / "bin" / "python"
    if not python.exists():
        print(f"installing {OFFICIAL} into build/official ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(BUILD / "official")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", OFFICIAL], check=True)
    return python


def model_cache(given: Path | None) -> Path:
    """A fastembed cache that holds MiniLM; built in build/minilm when none is given."""
    cache = given or Path(os.environ.get("FASTEMBED_CACHE_PATH", BUILD / "minilm"))
    if not (cache / "models--Qdrant--all-MiniLM-L6-v2-onnx").exists():
        print("building the model ...", file=sys.stderr)
        script = ROOT / "scripts" / "build_model.py"
        subprocess.run([sys.executable, str(script), str(cache)], check=True, stdout=sys.stderr)
    return cache.resolve()


def official_texts(result: Mapping[str, Any]) -> list[str]:
    """The texts in an answer of the official server: a JSON list in one text block."""
    blocks = result["content"]
    if not blocks:
        return []
    entries = json.loads(blocks[0]["text"])[1:]
    return [e.split("<content>")[1].split("</content>")[0] for e in entries]


def complete(result: Mapping[str, Any]) -> bool:
    """Whether every collection was searched by all its legs; the official server has one leg."""
    states = result.get("structuredContent", {}).get("collections", {})
    return all(state == "ok" for state in states.values())


def our_texts(result: Mapping[str, Any]) -> list[str]:
    """The texts in an answer of this server."""
    return [
        hit.get("text") or hit.get("passage", "") for hit in result["structuredContent"]["results"]
    ]
