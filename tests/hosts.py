"""Finds services and other processes by their folders and by the kernel's state."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def rendezvous(folder: Path) -> Path:
    """The path at which a folder's service publishes its address."""
    return folder / "service.json"


def state(pid: int) -> str:
    """The kernel's state: R, S, T (stopped), Z (zombie), or "" if there is no process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """True if the process runs; a zombie does not."""
    return state(pid) not in {"", "Z"}


async def until(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.01)
