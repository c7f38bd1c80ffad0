"""Hosts as their folders and the kernel tell of them."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_server_qdrant.hosting.wire import Rendezvous
from mcp_server_qdrant.qdrant.edge.wire import service


def rendezvous(folder: Path) -> Path:
    """Where the engine host of a folder publishes its address."""
    return service(folder).rendezvous


def pid_of(place: Path) -> int:
    """The process that has published itself there, or in that folder of an engine."""
    found = Rendezvous.read(rendezvous(place) if place.is_dir() else place)
    assert found is not None
    return found.pid


def state(pid: int) -> str:
    """R, S, T (stopped), Z (zombie) or nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    return state(pid) not in {"", "Z"}


async def until(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait for a condition to come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.01)
