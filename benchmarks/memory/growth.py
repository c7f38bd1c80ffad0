"""How recall, time and memory change with what other people's sessions stand around one's own.

    python benchmarks/memory/growth.py PATH --model MODEL_FOLDER [--plot growth.svg]

PATH is a file of LongMemEval or LoCoMo (histories.py). All histories are stored, a document per
session, a collection per history. Each question searches its own collection alone, then with those
of 3, 11 and 35 others, as many as there are; the page is that of an agent without a limit. Memory
is what all processes of the server hold at the end of each round (Linux only).
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from figures import recall
from histories import History, read
from mcp import Client
from run import called, judged, paged, ranked, settings, store

from mcp_server_qdrant.app.server import make_server

sys.path.append(str(Path(__file__).parents[1] / "lib"))
from processes import MARK, memory

SIZES = (1, 4, 12, 36)  # histories that are searched together
KIND = "sessions"


@dataclass(frozen=True)
class Row:
    """The figures of one size: means over the questions, and the median of their times."""

    histories: int
    sessions: int
    any_at_1: float
    recall_at_5: float
    recall_at_10: float
    tokens: float
    milliseconds: float
    megabytes: float


async def grown(client: Client, histories: Sequence[History], size: int, mark: str) -> Row:
    """Every question with so many histories around it, its own among them."""
    found, pages, counts = [], [], []
    for number, history in enumerate(histories):
        searched = [*histories, *histories][number : number + size]
        counts.append(sum(len(one.sessions) for one in searched))
        how = {"collections": [f"{KIND}-{one.name}" for one in searched]}
        for question in (one for one in history.questions if one.sessions):
            keys = await ranked(client, KIND, question.text, how)
            way = {"searched": "", "algorithm": "", "page": None}
            found += judged(history.name, question, keys, KIND, **way)
            pages.append(await paged(client, question.text, how))
    tokens, times, _ = zip(*pages, strict=True)
    return Row(
        size,
        round(np.mean(counts)),
        float(np.mean([recall(one, 1) > 0 for one in found])),
        float(np.mean([recall(one, 5) for one in found])),
        float(np.mean([recall(one, 10) for one in found])),
        float(np.mean(tokens)),
        float(np.median(times)),
        memory(mark, os.getpid()).pss,
    )


async def run(histories: Sequence[History], server: Callable[[Path], Any]) -> list[Row]:
    """The rows of all sizes that there are histories for."""
    mark = os.environ[MARK] = uuid4().hex
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with Client(server(Path(folder))) as client:
            await store(client, histories, [KIND])
            await called(client, "qdrant-find", query="warm up", collections=["*"])
            sizes = [size for size in SIZES if size <= len(histories)]
            return [await grown(client, histories, size, mark) for size in sizes]


def table(rows: Sequence[Row]) -> str:
    head = ["histories", "sessions", "any@1", "recall@5", "recall@10", "tokens", "p50 ms", "MB"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for one in rows:
        shares = f"{one.any_at_1:.3f} | {one.recall_at_5:.3f} | {one.recall_at_10:.3f}"
        costs = f"{one.tokens:.0f} | {one.milliseconds:.0f} | {one.megabytes:,.0f}"
        lines.append(f"| {one.histories} | {one.sessions:,} | {shares} | {costs} |")
    return "\n".join(lines)


def plot(rows: Sequence[Row], file: Path) -> None:
    """Draw recall by the number of sessions, if matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("nothing is drawn without matplotlib", file=sys.stderr)
        return
    figure = Figure(figsize=(6, 2.8), layout="constrained")
    axes = figure.subplots()
    sessions = [one.sessions for one in rows]
    axes.plot(sessions, [one.any_at_1 for one in rows], marker="o", label="any@1")
    axes.plot(sessions, [one.recall_at_5 for one in rows], marker="o", label="recall@5")
    axes.plot(sessions, [one.recall_at_10 for one in rows], marker="o", label="recall@10")
    axes.set(xscale="log", xlabel="sessions searched", ylim=(0, 1))
    axes.legend()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path("build/bench/memory"))
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    model, cache = given.model.absolute(), given.cache.absolute()
    rows = asyncio.run(
        run(read(given.path), lambda folder: make_server(settings(folder, model, cache)))
    )
    print(table(rows))
    if given.plot:
        plot(rows, given.plot)


if __name__ == "__main__":
    main()
