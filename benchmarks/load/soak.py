"""Many callers for a long time: errors, memory, latency; then more of them than the server takes.

    python benchmarks/load/soak.py [--minutes 10] [--callers 32] [--model-cache build/minilm]
    python benchmarks/load/soak.py --table [--minutes 1]

A server over streamable-http with the embedded engine and the real model. Callers of both protocol
eras search (four calls of five) and store, over a bounded number of texts, so that what grows is a
leak. In the last fifth of the time there are three times as many callers as one address may have
calls: what is beyond gets 429, what is taken has to be as fast as before.

`--table` prints what one instance carries, for docs/deployment.md: each number of callers over each
number of points for so many minutes, after the points were written with prepared vectors.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import corpus
import numpy as np
import servers
from fill_ours import fill, synthetic_notes
from http_caller import Caller
from processes import Memory, memory
from servers import model_cache

WORDS = (
    *("anchor", "basil", "copper", "delta", "ember", "falcon", "garden", "harbour", "island"),
    *("jasper", "kettle", "lantern", "meadow", "needle", "orchard", "paper", "quartz", "river"),
    *("saddle", "timber", "umbrella", "velvet", "willow", "yellow", "zephyr"),
)
COLLECTIONS = ("notes", "meetings", "code", "recipes")
TEXTS = 400
SAMPLES = 60
FLOOD = 3
CARRIED_POINTS, CARRIED_CALLERS = (1_000, 10_000, 100_000), (1, 8, 32)
REAL = 2_000  # vectors that were computed; the others are drawn around them


@dataclass
class Phase:
    """What callers saw in one stretch of time: milliseconds of what was taken, by tool."""

    name: str
    seconds: float
    taken: dict[str, list[float]] = field(default_factory=lambda: {"find": [], "store": []})
    refused: int = 0
    errors: Counter = field(default_factory=Counter)

    def line(self) -> str:
        """Its figures."""
        done = sum(map(len, self.taken.values()))
        parts = [f"{self.name}: {done} calls, {done / self.seconds:.0f}/s, {self.refused} refused"]
        for tool, times in self.taken.items():
            if times:
                p50, p95 = quantile(times, 0.5), quantile(times, 0.95)
                parts.append(f"{tool} p50 {p50:.0f} p95 {p95:.0f} ms")
        parts.append(f"errors {dict(self.errors) or 0}")
        return ", ".join(parts)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def text(number: int) -> str:
    chosen = random.Random(number).choices(WORDS, k=25)
    return f"Fact {number}: {' '.join(chosen)}."


def some_words() -> str:
    return " ".join(random.choices(WORDS, k=3))


async def calling(
    caller: Caller, phase: Phase, until: float, query: Callable[[], str] = some_words
) -> None:
    """One caller until the end of a phase."""
    while time.monotonic() < until:
        number = random.randrange(TEXTS)
        if random.random() < 0.8:
            tool, arguments = "find", {"query": query(), "collections": ["*"]}
        else:
            where = COLLECTIONS[number % len(COLLECTIONS)]
            tool = "store"
            arguments = {"information": text(number), "id": f"n{number}", "collection_name": where}
        began = time.perf_counter()
        try:
            status, result = await caller.call(f"qdrant-{tool}", arguments)
        except (OSError, EOFError, asyncio.IncompleteReadError) as error:
            phase.errors[type(error).__name__] += 1
            await caller.close()
            continue
        if status == 429:
            phase.refused += 1
            await asyncio.sleep(random.uniform(0.8, 1.2))  # as Retry-After asks
        elif status != 200 or result is None:
            phase.errors[f"HTTP {status}"] += 1
        elif result.get("isError") or not servers.complete(result):
            phase.errors[f"{tool}: {result['content'][0]['text'][:80]}"] += 1
        else:
            phase.taken[tool].append((time.perf_counter() - began) * 1000)


async def watching(mark: str, until: float, every: float) -> list[tuple[float, Memory]]:
    """(minutes, memory of the server's processes) until then."""
    samples = []
    began = time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(every)
        held = await asyncio.to_thread(memory, mark)
        samples.append(((time.monotonic() - began) / 60, held))
    return samples


def slope(samples: list[tuple[float, Memory]], process: str) -> float:
    """Megabytes a minute, by least squares over the second half of the samples."""
    late = samples[len(samples) // 2 :]
    minutes, held = [at for at, _ in late], [one.anonymous.get(process, 0.0) for _, one in late]
    return statistics.linear_regression(minutes, held).slope


def grown(samples: list[tuple[float, Memory]]) -> list[str]:
    """A line for each process: its own memory at five moments, and how it grows at the end.

    Mapped files are not counted: of the engine's log up to 32 MB per collection are, by turns.
    """
    moments = [samples[(len(samples) - 1) * n // 4][1].anonymous for n in range(5)]
    return [
        f"{name}: {', '.join(f'{held.get(name, 0.0):.1f}' for held in moments)} MB of its own, "
        f"slope of the second half {slope(samples, name):+.2f} MB/min"
        for name in moments[0]
    ]


async def run(port: int, mark: str, minutes: float, callers: int) -> list[str]:
    clients = [Caller(port, ("modern", "legacy")[n % 2]) for n in range(callers * FLOOD)]
    first = clients[0]
    for client in clients[:callers]:
        await client.open()
    for number in range(TEXTS):
        where = COLLECTIONS[number % len(COLLECTIONS)]
        arguments = {"information": text(number), "id": f"n{number}", "collection_name": where}
        status, result = await first.call("qdrant-store", arguments | {"create": True})
        assert status == 200, result
    warm = Phase("warm-up", 5)
    await together(clients[:callers], warm)
    calm = Phase(f"{callers} callers", minutes * 60 * 0.8)
    watched = asyncio.ensure_future(
        watching(mark, time.monotonic() + calm.seconds, calm.seconds / SAMPLES)
    )
    await together(clients[:callers], calm)
    samples = await watched
    for client in clients[callers:]:
        await client.open()
    flood = Phase(f"{callers * FLOOD} callers, {callers} at once", minutes * 60 * 0.2)
    await together(clients, flood)
    _, metrics = await first.get("/metrics")
    counted = sum(
        float(line.split()[-1])
        for line in metrics.decode().splitlines()
        if line.startswith("mcp_qdrant_calls_total{")
    )
    return [
        calm.line(),
        flood.line(),
        f"with mapped files, at the end: {'; '.join(samples[-1][1].processes)}",
        *grown(samples),
        f"/metrics counts {counted:.0f} calls",
    ]


async def together(
    clients: list[Caller], phase: Phase, query: Callable[[], str] = some_words
) -> None:
    until = time.monotonic() + phase.seconds
    await asyncio.gather(*(calling(client, phase, until, query) for client in clients))


async def carried(port: int, mark: str, points: int, minutes: float) -> None:
    """Print a row for each number of callers."""
    clients = [Caller(port, ("modern", "legacy")[n % 2]) for n in range(max(CARRIED_CALLERS))]
    for client in clients:
        await client.open()
    query = corpus.Writer(2).query
    await together(clients[:1], Phase("warm-up", 5), query)
    for callers in CARRIED_CALLERS:
        phase = Phase("", minutes * 60)
        for client in clients:  # the server has ended the connections that nobody used
            await client.close()
        await together(clients[:callers], phase, query)
        finds, stores = (phase.taken[tool] for tool in ("find", "store"))
        rate = (len(finds) + len(stores)) / phase.seconds
        cells = [f"{points:,}", str(callers), f"{rate:.0f}"]
        cells += [f"{quantile(finds, share):.0f} ms" for share in (0.5, 0.95)]
        cells += [f"{quantile(stores, 0.95):.0f} ms", f"{memory(mark).pss:.0f} MB"]
        print(f"| {' | '.join(cells)} |", flush=True)
        if phase.errors or phase.refused:
            print(f"{phase.refused} refused, errors {dict(phase.errors)}", file=sys.stderr)


def filled(folder: Path, points: int, cache: Path) -> None:
    """So many points in as many collections as the soak has."""
    real = corpus.embedded(REAL, servers.BUILD / "bench", cache)
    each = points // len(COLLECTIONS)
    vectors = np.load(real[1])
    notes = {
        name: synthetic_notes(each, vectors, seed) for seed, name in enumerate(COLLECTIONS, 10)
    }
    asyncio.run(fill(folder, notes))


def table(args: argparse.Namespace, cache: Path) -> None:
    print("| points | callers | calls a second | find, median | 95 % | store, 95 % | memory |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for points in CARRIED_POINTS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            filled(folder / "engine", points, cache)
            with servers.over_http(folder, cache) as (port, mark):
                asyncio.run(carried(port, mark, points, args.minutes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--model-cache", type=Path)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    cache = model_cache(args.model_cache)
    if args.table:
        table(args, cache)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with servers.over_http(folder, cache) as (port, mark):
            print("\n".join(asyncio.run(run(port, mark, args.minutes, args.callers))))


if __name__ == "__main__":
    main()
