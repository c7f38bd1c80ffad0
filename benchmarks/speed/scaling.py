"""How finding grows with the number of collections and with their size, and what it blocks.

    python benchmarks/speed/scaling.py [--parts size,lag] [--model-cache PATH]
        [--large 100000] [--queries 100] [--fresh] [--json out.json]
    python benchmarks/speed/scaling.py --url http://127.0.0.1:6333 [--queries 30]
        [--counts 1,4,16,64,256,1024]

size:        find p50 in one collection of 10,000 and of 100,000 points, as written and after the
             engine has optimised it in the background.
lag:         how late the event loop of the server is while it finds, stores and optimises.
engines:     with --url, and then alone: 1 to 1,024 small collections on the embedded engine and on
             a Qdrant server, by phase, with processor time per collection; the server keeps the
             collections scaling-*.

Vectors of 10,000 notes are real, further ones lie around those; all texts are BM25's to read.
Kinds of query take turns, each query is asked once, every find asks for ten results.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import corpus
import servers
from fill_ours import NEVER, Notes, fill, notes_of, synthetic_notes
from processes import await_end, memory

from mcp_server_qdrant.qdrant.edge.files import copy_sparse

COUNTS = (1, 4, 16, 64)
EACH = 1_000
SMALL = 10_000
TURN = 5
PATIENCE = 20.0
BENCH = servers.BUILD / "bench"
# A server in one process, whose engine optimises nothing.
AS_WRITTEN = f"""
from mcp_server_qdrant.__main__ import main
from mcp_server_qdrant.qdrant.edge import optimise
optimise.QUIET_SECONDS = {NEVER}
main()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="size,lag")
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    parser.add_argument("--large", type=int, default=100_000, help="points of the large one")
    parser.add_argument("--queries", type=int, default=100, help="timed finds of each kind")
    parser.add_argument("--fresh", action="store_true", help="write the collections anew")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--url", help="a Qdrant server")
    parser.add_argument("--counts", default="1,4,16,64,256,1024", help="collections, with --url")
    args = parser.parse_args()
    cache = servers.model_cache(args.model_cache)
    count = EACH if args.url else SMALL
    texts, vectors = corpus.embedded(count, BENCH, cache)
    real = notes_of(texts, vectors, count)
    report: dict[str, Any] = {}
    if args.url:
        import engines

        args.parts = ""
        report["engines"] = engines.measure(
            args.url,
            cache,
            real.vectors,
            args.queries,
            [int(count) for count in args.counts.split(",")],
        )
    if "size" in args.parts:
        report["size"] = over_sizes(cache, real, args)
    if "lag" in args.parts:
        import lag

        folder = copied(large(args.large, real, fresh=args.fresh), BENCH / "lag")
        report["lag"] = lag.measure(folder, cache, args.large)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def over_sizes(cache: Path, real: Notes, args: argparse.Namespace) -> dict[str, float]:
    """p50 in ms by size and state."""
    small = BENCH / "size-small"
    prepare(small, lambda: {servers.COLLECTION: real}, fresh=args.fresh)
    folders = {
        f"{SMALL:,}": copied(small, BENCH / "size-small-used"),
        f"{args.large:,}": copied(large(args.large, real, fresh=args.fresh), BENCH / "size-used"),
    }
    print("\n| points in one collection | find p50 ms | p95 ms | to small |\n|---|---|---|---|")
    figures = {}
    for state in ("as written", "optimised"):
        contestants = {name: alone(path, cache, state) for name, path in folders.items()}
        times = sized(contestants, args.queries, state)
        for name, spent in times.items():
            ratio = p50(spent) / p50(times[f"{SMALL:,}"])
            print(f"| {name}, {state} | {p50(spent):.1f} | {p95(spent):.1f} | {ratio:.2f} |")
            figures[f"{name}, {state}"] = p50(spent)
    print("\ntarget: large at most 3.00 x small")
    return figures


def alone(folder: Path, cache: Path, state: str) -> servers.Contestant:
    """Our server in one process, which optimises nothing where all is to stay as written."""
    made = servers.ours(folder, cache)
    command = [sys.executable, "-c", AS_WRITTEN] if state == "as written" else made.command
    return replace(made, command=command, env={**made.env, "QDRANT_SHARE_PROCESS": "false"})


def sized(
    contestants: Mapping[str, servers.Contestant], queries: int, state: str
) -> dict[str, list[float]]:
    """Find times by size; waits until the engines have optimised what they optimise."""
    started = {}
    for name, contestant in contestants.items():
        started[name] = contestant.start()
        started[name].handshake()
        if state == "optimised":
            await_optimised(contestant.folder, name)
    asks = {
        name: lambda query, name=name: contestants[name].find(started[name], query)
        for name in contestants
    }
    times = in_turns(asks, queries)
    for name, contestant in contestants.items():
        print(f"<!-- {name}: {memory(contestant.mark)} -->")
        started[name].stop()
        await_end(contestant.mark)
    return times


def await_optimised(folder: Path, name: str) -> None:
    """Wait until the background has optimised the collection."""
    began, seen = time.monotonic(), False
    while True:
        busy = servers.optimises(folder)
        spent = time.monotonic() - began
        if (seen and not busy) or (not seen and spent > PATIENCE):
            print(f"<!-- {name}: optimised {seen and not busy} after {spent:.0f} s -->")
            return
        seen = seen or busy
        time.sleep(0.02)


def large(points: int, real: Notes, *, fresh: bool) -> Path:
    """The folder of the large collection, as written."""
    folder = BENCH / f"size-{points}"
    prepare(
        folder,
        lambda: {servers.COLLECTION: synthetic_notes(points, real.vectors, seed=23)},
        fresh=fresh,
    )
    return folder


def copied(folder: Path, target: Path) -> Path:
    """A fresh copy to use, so that the original stays as written."""
    shutil.rmtree(target, ignore_errors=True)
    copy_sparse(folder, target)
    return target


def prepare(folder: Path, make: Callable[[], Mapping[str, Notes]], *, fresh: bool) -> None:
    """Write the collections that `make` makes unless that was done."""
    done = folder.with_name(f"{folder.name}.filled")
    if done.exists() and folder.exists() and not fresh:
        return
    shutil.rmtree(folder, ignore_errors=True)
    collections = make()
    began = time.perf_counter()
    asyncio.run(fill(folder, collections))
    points = sum(len(notes.texts) for notes in collections.values())
    print(f"wrote {points:,} points in {time.perf_counter() - began:.0f} s")
    done.touch()


def in_turns(asks: Mapping[str, Callable[[str], Any]], count: int) -> dict[str, list[float]]:
    """Milliseconds of `count` finds of each kind; all queries differ, the first few only warm."""
    times: dict[str, list[float]] = {kind: [] for kind in asks}
    queries = iter(corpus.queries((count + 3 * TURN) * len(asks), seed=31))
    for start in range(-2 * TURN, count, TURN):
        for kind, ask in asks.items():
            for _ in range(TURN):
                query = next(queries)
                began = time.perf_counter()
                ask(query)
                if start >= 0:
                    times[kind].append((time.perf_counter() - began) * 1000)
    return times


def p50(values: list[float]) -> float:
    return statistics.median(values)


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


if __name__ == "__main__":
    main()
