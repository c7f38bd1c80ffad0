"""Memory of all processes that belong to a server: pipe, service and helpers (Linux only).

Each server is started with a variable of its own in its environment. The service and its helpers
inherit it, although they leave the process tree, and so can be found and added up.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

MARK = "BENCHMARK_MARK"
PROC = Path("/proc")


@dataclass(frozen=True)
class Memory:
    """Megabytes, summed over `processes`. PSS divides shared pages among those who share them.

    `anonymous` is by process what no file backs: what only its end gives back.
    """

    rss: float
    pss: float
    processes: tuple[str, ...]
    anonymous: dict[str, float]


def marked(mark: str) -> list[int]:
    """Process ids that carry the mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in PROC.iterdir():
        with contextlib.suppress(OSError, ValueError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return sorted(found)


def memory(mark: str, *others: int) -> Memory:
    """What the marked processes, and others by their ids, hold now."""
    rss = pss = 0
    names = []
    anonymous: dict[str, float] = {}
    for pid in sorted({*marked(mark), *others}):
        with contextlib.suppress(OSError):
            fields = _rollup(pid)
            rss += fields["Rss"]
            pss += fields["Pss"]
            title = _title(pid)
            names.append(f"{title} {fields['Rss'] / 1024:.0f} MB")
            anonymous[title] = anonymous.get(title, 0) + fields["Anonymous"] / 1024
    return Memory(rss / 1024, pss / 1024, tuple(names), anonymous)


def await_end(mark: str, patience: float = 3.0) -> None:
    """Wait for helpers that outlive their server; end them politely when they linger."""
    deadline = time.monotonic() + patience
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    while marked(mark) and time.monotonic() < deadline + 10:
        time.sleep(0.05)


def _rollup(pid: int) -> dict[str, int]:
    """Kilobytes by field of /proc/<pid>/smaps_rollup."""
    lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def _title(pid: int) -> str:
    words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    module = next((w for w in words if w.startswith("mcp_server_qdrant")), None)
    return module or (Path(words[1]).name if len(words) > 2 else words[0])
