"""How finding grows with the number of collections and with their size, and what it blocks.

    python benchmarks/scaling.py [--parts collections,size,lag] [--model-cache PATH]
        [--large 100000] [--queries 100] [--fresh] [--json out.json]

collections: find p50 over 1, 4, 16 and 64 collections of 1,000 points, named and as ["*"].
size:        find p50 in one collection of 10,000 and of 100,000 points, as written and after the
             engine has optimised it in the background.
lag:         how late the event loop of the server is while it finds, stores and optimises.

Vectors of 10,000 notes are real, further ones lie around those; all texts are BM25's to read.
Kinds of query take turns, each query is asked once, every find asks for ten results.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import servers
from fill_ours import Notes, fill, notes_of, synthetic_notes
from processes import await_end, memory

COUNTS = (1, 4, 16, 64)
EACH = 1_000
SMALL = 10_000
TURN = 5
BENCH = servers.BUILD / "bench"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="collections,size,lag")
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    parser.add_argument("--large", type=int, default=100_000, help="points of the large one")
    parser.add_argument("--queries", type=int, default=100, help="timed finds of each kind")
    parser.add_argument("--fresh", action="store_true", help="write the collections anew")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    args = parser.parse_args()
    cache = servers.model_cache(args.model_cache)
    texts, vectors = corpus.embedded(SMALL, BENCH, cache)
    real = notes_of(texts, vectors, SMALL)
    report: dict[str, Any] = {}
    if "collections" in args.parts:
        report["collections"] = over_collections(cache, real.vectors, args.queries, args.fresh)
    if "size" in args.parts:
        report["size"] = over_sizes(cache, real, args)
    if "lag" in args.parts:
        import lag

        report["lag"] = lag.measure(BENCH / "lag", cache, real)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def over_collections(
    cache: Path,
    vectors: np.ndarray,
    queries: int,
    fresh: bool,  # noqa: FBT001
) -> dict[str, float]:
    """p50 in ms by kind of query."""
    folder = BENCH / "collections"
    names = [f"notes-{number:02}" for number in range(max(COUNTS))]
    notes = synthetic_notes(EACH * len(names), vectors, seed=21)
    parts = {n: notes.part(i * EACH, (i + 1) * EACH) for i, n in enumerate(names)}
    prepare(folder, parts, fresh=fresh)
    contestant = servers.ours(folder, cache, {"limit": servers.LIMIT})
    server = contestant.start()
    server.handshake()

    def ask(wanted: list[str]) -> Callable[[str], Any]:
        arguments = {"limit": servers.LIMIT, "collections": wanted}
        return lambda query: server.call("qdrant-find", {**arguments, "query": query})

    asks = {str(count): ask(names[:count]) for count in COUNTS}
    asks['["*"]'] = ask(["*"])
    times = in_turns(asks, queries)
    used = memory(contestant.mark)
    server.stop()
    await_end(contestant.mark)
    print("\n| collections of 1,000 points | find p50 ms | p95 ms | to one |\n|---|---|---|---|")
    for kind, spent in times.items():
        ratio = p50(spent) / p50(times["1"])
        print(f"| {kind} | {p50(spent):.1f} | {p95(spent):.1f} | {ratio:.2f} |")
    print(f"\ntarget: 64 at most 4.00 x one; memory PSS {used.pss:.0f} MB: {used.processes}")
    return {kind: p50(spent) for kind, spent in times.items()}


def prepare(folder: Path, collections: Mapping[str, Notes], *, fresh: bool) -> None:
    """Write the collections unless that was done."""
    done = folder.with_name(f"{folder.name}.filled")
    if done.exists() and folder.exists() and not fresh:
        return
    shutil.rmtree(folder, ignore_errors=True)
    began = time.perf_counter()
    asyncio.run(fill(folder, collections))
    points = sum(len(notes.texts) for notes in collections.values())
    print(f"wrote {points:,} points in {time.perf_counter() - began:.0f} s")
    done.touch()


def in_turns(asks: Mapping[str, Callable[[str], Any]], count: int) -> dict[str, list[float]]:
    """Milliseconds of `count` finds of each kind; all queries differ, the first few only warm."""
    times: dict[str, list[float]] = {kind: [] for kind in asks}
    queries = iter(corpus.queries((count + 2 * TURN) * len(asks), seed=31))
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
