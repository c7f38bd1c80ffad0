"""The official server 0.8.1 and this one, side by side on the same model and the same points.

    python benchmarks/official/run.py [--points 1000,10000] [--official-python PATH]
        [--model-cache PATH] [--runs 5] [--queries 200] [--json out.json] [--only official|ours]

Both are driven over stdio by the same bare JSON-RPC client, in turns, so that what else the
machine does hits both alike. Ratios are the result; absolute figures are this machine's.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import corpus
import servers
from jsonrpc import StdioServer
from processes import await_end, memory

BLOCK = 10
WARM_UP = 30
BENCH = servers.BUILD / "bench"

# (measure, points or None for every size, ours / official at most)
TARGETS = [
    ("handshake ms", None, 0.3),
    ("handshake beside a client ms", None, 0.1),
    ("first find ms", None, 0.7),
    ("first find beside a client ms", None, 0.1),
    ("find p50 ms", 1_000, 1.2),
    ("find p50 ms", 10_000, 0.4),
    ("memory PSS MB", 1_000, 1.0),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", default="1000,10000", help="sizes, separated by commas")
    parser.add_argument("--official-python", type=Path, help="Python that has the official server")
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    parser.add_argument("--runs", type=int, default=5, help="cold starts of each server")
    parser.add_argument("--queries", type=int, default=200, help="timed finds of each server")
    parser.add_argument("--only", choices=["official", "ours"], help="measure one of them alone")
    parser.add_argument("--fresh", action="store_true", help="write the collections anew")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    args = parser.parse_args()
    sizes = [int(size) for size in args.points.split(",")]
    cache = servers.model_cache(args.model_cache)
    python = None if args.only == "ours" else servers.official_python(args.official_python)
    texts, vectors = corpus.embedded(max(sizes), BENCH, cache)
    report = {}
    for size in sizes:
        contestants = []
        for name in [args.only] if args.only else ["official", "ours"]:
            folder = BENCH / f"{name}-{size}"
            if args.fresh:
                shutil.rmtree(folder, ignore_errors=True)
            if name == "official":
                fill_official(python, folder, cache, texts, vectors, size)
                contestants.append(servers.official(python, folder, cache))
            else:
                fill_ours(folder, texts, vectors, size)
                contestants.append(servers.ours(folder, cache))
        report[size] = measure(contestants, args.runs, args.queries)
        print(table(size, report[size]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def fill_official(
    python: Path, folder: Path, cache: Path, texts: Path, vectors: Path, count: int
) -> None:
    """Let the official server's own code write the collection, once."""
    if (folder / "filled").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    script = Path(__file__).with_name("fill_official.py")
    subprocess.run(
        [
            str(python),
            str(script),
            str(folder),
            servers.COLLECTION,
            str(texts),
            str(vectors),
            str(count),
        ],
        check=True,
        env=servers.official(python, folder, cache).environment(),
    )
    (folder / "filled").touch()


def fill_ours(folder: Path, texts: Path, vectors: Path, count: int) -> None:
    """Write the same points through this package's own engine client, once."""
    from fill_ours import fill, notes_of

    done = folder.with_name(f"{folder.name}.filled")
    if done.exists() and folder.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    asyncio.run(fill(folder, {servers.COLLECTION: notes_of(texts, vectors, count)}))
    done.touch()


def measure(contestants: list[servers.Contestant], runs: int, queries: int) -> dict[str, Any]:
    """All figures of all contestants at one size, by contestant."""
    figures: dict[str, dict[str, Any]] = {c.name: {} for c in contestants}
    for name, times in cold_starts(contestants, runs).items():
        figures[name].update(times)
    for name, found in warm(contestants, queries).items():
        figures[name].update(found)
    return figures


def cold_starts(contestants: list[servers.Contestant], runs: int) -> dict[str, dict[str, Any]]:
    """Spawn to handshake and to the first answer, medians in ms: with nothing of it running, and
    beside a client that is connected.

    The official server has one client for a folder: every start of it is a cold one.
    """
    times: dict[str, dict[str, list[float]]] = {c.name: defaultdict(list) for c in contestants}
    queries = corpus.queries(2 * runs + 2, seed=5)
    for run in range(runs + 1):
        for contestant in contestants[:: 1 if run % 2 else -1]:
            seen = times[contestant.name] if run else defaultdict(list)  # the first one warms up
            first = start(contestant, seen, queries[2 * run], "")
            if contestant.name != "official":
                second = start(contestant, seen, queries[2 * run + 1], " beside a client")
                second.stop()
            seen["stop"].append(first.stop() * 1000)
            await_end(contestant.mark)
    for seen in times.values():
        for name in ("handshake", "first find"):
            seen.setdefault(f"{name} beside a client", seen[name])
    return {
        name: {
            **{f"{measure} ms": statistics.median(values) for measure, values in seen.items()},
            "starts": dict(seen),
        }
        for name, seen in times.items()
    }


def start(
    contestant: servers.Contestant, seen: dict[str, list[float]], query: str, where: str
) -> StdioServer:
    """Start a client's server and ask it once; notes how long both took."""
    server = contestant.start()
    server.handshake()
    seen[f"handshake{where}"].append(server.age * 1000)
    result = contestant.find(server, query)
    assert servers.complete(result), f"the first find was degraded: {result}"
    seen[f"first find{where}"].append(server.age * 1000)
    return server


def warm(contestants: list[servers.Contestant], count: int) -> dict[str, dict[str, Any]]:
    """Find times of warm servers, in turns of BLOCK queries, and their memory afterwards."""
    started = {c.name: c.start() for c in contestants}
    for contestant in contestants:
        started[contestant.name].handshake()
        for query in corpus.queries(WARM_UP, seed=7):
            contestant.find(started[contestant.name], query)
    queries = corpus.queries(count, seed=11)
    times, answers = defaultdict(list), defaultdict(dict)
    for start in range(0, count, BLOCK):
        for contestant in contestants[:: 1 if start // BLOCK % 2 else -1]:
            for query in queries[start : start + BLOCK]:
                began = time.perf_counter()
                result = contestant.find(started[contestant.name], query)
                times[contestant.name].append((time.perf_counter() - began) * 1000)
                read = (
                    servers.official_texts if contestant.name == "official" else servers.our_texts
                )
                answers[contestant.name][query] = read(result)
    figures = {}
    for contestant in contestants:
        used = memory(contestant.mark)
        figures[contestant.name] = {
            "find p50 ms": statistics.median(times[contestant.name]),
            "find p95 ms": statistics.quantiles(times[contestant.name], n=20)[-1],
            "memory RSS MB": used.rss,
            "memory PSS MB": used.pss,
            "memory": asdict(used),
            "results": float(statistics.mean(map(len, answers[contestant.name].values()))),
        }
    if len(contestants) == 2:
        figures["ours"]["agreement"] = agreement(answers["official"], answers["ours"])
    for contestant in contestants:
        started[contestant.name].stop()
        await_end(contestant.mark)
    return figures


def agreement(official: dict[str, list[str]], ours: dict[str, list[str]]) -> float:
    """The share of queries whose best hit at the official server is among ours."""
    return statistics.mean(official[q][0] in ours[q] for q in official if official[q])


def table(points: int, figures: dict[str, Any]) -> str:
    """The figures as a Markdown table, with the targets that apply at this size."""
    names = list(figures)
    rows = [f"\n### {points:,} points\n", f"| | {' | '.join(names)} | ratio | target |"]
    rows.append("|---" * (len(names) + 3) + "|")
    for measure in [k for k, v in figures[names[0]].items() if isinstance(v, float)]:
        values = [figures[n][measure] for n in names]
        ratio = values[1] / values[0] if len(values) == 2 and values[0] else None
        cells = [measure, *(f"{v:.1f}" for v in values), f"{ratio:.2f}" if ratio else ""]
        rows.append(f"| {' | '.join(cells)} | {verdict(measure, points, ratio)} |")
    rows.extend(f"\n{n}: {', '.join(figures[n]['memory']['processes'])}" for n in names)
    if "agreement" in figures.get("ours", {}):
        share = figures["ours"]["agreement"]
        rows.append(f"\nbest hit of the official server among ours: {share:.0%} of the queries")
    return "\n".join(rows)


def verdict(measure: str, points: int, ratio: float | None) -> str:
    """What the target says about a ratio, "" where there is none."""
    for name, size, most in TARGETS:
        if ratio and name == measure and size in (None, points):
            return f"at most {most:.2f}: {'met' if ratio <= most else 'NOT met'}"
    return ""


if __name__ == "__main__":
    main()
