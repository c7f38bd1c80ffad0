"""A find over every collection of the embedded engine, by how many there are and how large.

    python benchmarks/speed/many.py [--model-cache PATH] [--queries 60]
        [--sets 1x22,16x22,64x22,256x22,1024x22,1x1000,16x1000,64x1000]

For each set: the first find after a cold start of the server (its time, and whether all answered);
the p50 of finds over ["*"] right after it, while the engine optimises what was just written and the
words of the collections are sampled, and once both are done; processor time of these finds in all
processes, their memory, and the disk.
PYTHONPATH=/other/src measures another checkout; its collections are written anew.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import corpus
import numpy as np
import servers
from fill_ours import fill, notes_of, synthetic_notes
from processes import await_end, marked, memory

BENCH = servers.BUILD / "bench" / "many"
SETS = "1x22,16x22,64x22,256x22,1024x22,1x1000,16x1000,64x1000"
REAL = 1_000
TICK = os.sysconf("SC_CLK_TCK")
QUIET = 5.0  # seconds without work in the background
IDLE = 0.05  # share of a core below which the server counts as idle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--sets", default=SETS, help="COLLECTIONSxTEXTS, ...")
    args = parser.parse_args()
    cache = servers.model_cache(args.model_cache)
    texts, vectors = corpus.embedded(REAL, servers.BUILD / "bench", cache)
    real = notes_of(texts, vectors, REAL)
    heads = ("collections x texts", "first find s", "answered", "p50 ms at first")
    heads += ("p50 ms optimised", "processor ms", "PSS MB", "disk MB")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for one in args.sets.split(","):
        collections, each = map(int, one.split("x"))
        print(
            f"| {one} | {row(collections, each, real.vectors, cache, args.queries)} |", flush=True
        )


def row(collections: int, each: int, vectors: np.ndarray, cache: Path, queries: int) -> str:
    """The figures of one set."""
    folder = BENCH / f"{collections}x{each}"
    shutil.rmtree(folder, ignore_errors=True)
    notes = synthetic_notes(collections * each, vectors, seed=21)
    parts = {f"n-{i:04}": notes.part(i * each, (i + 1) * each) for i in range(collections)}
    asyncio.run(fill(folder, parts))
    contestant = servers.ours(folder, cache, {"limit": servers.LIMIT, "collections": ["*"]})
    began = time.perf_counter()
    server = contestant.start()
    server.handshake()
    asked = corpus.queries(queries + 1)
    answer = contestant.find(server, asked[0])
    first = time.perf_counter() - began
    states = [one["state"] for one in answer["structuredContent"].get("collections", ())]
    missing = sum(state in {"failed", "timeout"} for state in states)

    def median(some: Sequence[str]) -> float:
        spent = []
        for query in some:
            began = time.perf_counter()
            contestant.find(server, query)
            spent.append(1e3 * (time.perf_counter() - began))
        return statistics.median(spent)

    at_first = median(asked[1:])
    settle(folder, contestant.mark)
    before = processor(contestant.mark)
    settled = median(asked[1:])
    used = 1e3 * (processor(contestant.mark) - before) / queries
    pss = memory(contestant.mark).pss
    server.stop()
    await_end(contestant.mark)
    disk = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    told = "no" if answer.get("isError") else f"all but {missing}" if missing else "all"
    return (
        f"{first:.2f} | {told} | {at_first:.1f} | {settled:.1f} | {used:.1f} | {pss:.0f}"
        f" | {disk / 1e6:.0f}"
    )


def settle(folder: Path, mark: str) -> None:
    """Wait until nothing is done in the background; at most four minutes."""
    quiet, end = time.monotonic() + QUIET, time.monotonic() + 240
    used = processor(mark)
    while time.monotonic() < min(quiet, end):
        time.sleep(0.5)
        before, used = used, processor(mark)
        if servers.optimises(folder) or used - before > IDLE * 0.5:
            quiet = time.monotonic() + QUIET


def processor(mark: str) -> float:
    """Seconds of the processor that all processes of a server have used."""
    ticks = 0
    for pid in marked(mark):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return ticks / TICK


if __name__ == "__main__":
    main()
