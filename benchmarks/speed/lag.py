"""How late the service's event loop is while it finds, stores and optimises. Part of scaling.py.

The tools are called inside this process, which has engine and model as the service has them, so
that a ticker beside them sees what any other request would see. A tick is due every millisecond;
one that comes late stands for all that were due meanwhile, so a stall counts with its whole length.
"""

import asyncio
import contextlib
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import corpus
import servers

import ingest
from mcp_server_qdrant.app.models import open_encoders
from mcp_server_qdrant.app.process import local_models
from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.app.services import Services, Shared, assemble
from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.ingest.files.state import SyncRequest
from mcp_server_qdrant.ingest.files.walk import sources
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.settings.environment import Settings

TICK = 1.0  # ms
SECONDS = 8.0
CALLERS = 4
FILES = 500
OPTIMISED_WITHIN = 60.0
MOST = 25.0  # ms, p95

Call = Callable[[], Awaitable[object]]
Figures = dict[str, float]


def measure(folder: Path, cache: Path, points: int) -> dict[str, Figures]:
    """Lag in ms by what the server did; `folder` holds one collection of so many points."""
    report = asyncio.run(_measure(folder, cache))
    print(f"\n| {points:,} points: event loop late by, ms | p50 | p95 | max | calls/s |")
    print("|---|---|---|---|---|")
    for doing, seen in report.items():
        times = " | ".join(f"{seen[name]:.2f}" for name in ("p50", "p95", "max"))
        print(f"| {doing} | {times} | {seen['calls/s']:.0f} |")
    worst = max(seen["p95"] for seen in report.values())
    print(f"\ntarget: p95 under {MOST:.1f} ms; worst {worst:.2f}: {_verdict(worst < MOST)}")
    return report


def _verdict(met: bool) -> str:  # noqa: FBT001
    return "met" if met else "NOT met"


async def _measure(folder: Path, cache: Path) -> dict[str, Figures]:
    settings = Settings(
        qdrant_local_path=folder,
        fastembed_cache_path=cache,
        collection_name=servers.COLLECTION,
    )
    client = await EdgeClient.open(folder, timeout=60)
    services = assemble(settings, client, open_encoders(settings, local_models()))
    try:
        await services.encoders.default.ready(60)
        find, store = tools(settings, services)
        # As written, so many points are due to be optimised soon after they are opened.
        async with optimising(folder) as busy:
            report = {"finding, storing, optimising": await during([find, store], busy)}
        report["doing nothing"] = await during([])
        report["finding, one caller"] = await during([find])
        report[f"finding, {CALLERS} callers"] = await during([find] * CALLERS)
        report["storing, one caller"] = await during([store])
        report["finding, storing"] = await during([find, store])
        report[f"finding, a folder of {FILES} files is read"] = await reading(services, find)
        return report
    finally:
        await services.close()


async def reading(services: Services, find: Call) -> Figures:
    """Lag while somebody searches and a folder is brought into a collection."""
    with tempfile.TemporaryDirectory() as name:
        ingest.write(Path(name), FILES)
        request = SyncRequest(tuple(sources([Path(name)])), "files", Selection())
        sync = asyncio.ensure_future(services.sync(request))
        found = await during([find], lambda: not sync.done())
        await sync
        return found


def tools(settings: Settings, services: Services) -> tuple[Call, Call]:
    """A find and a store through the server's tools; each asks or says something new."""

    async def opened() -> Shared:
        return services.shared

    server = make_server(settings, opened=opened)
    queries = itertools.cycle(corpus.queries(5_000, seed=41))
    texts = (f"{text} Number {n}." for n, text in enumerate(corpus.texts(50_000, seed=43)))

    async def find() -> object:
        arguments = {"query": next(queries), "limit": servers.LIMIT}
        return await server.call_tool("qdrant-find", arguments)

    async def store() -> object:
        return await server.call_tool("qdrant-store", {"information": next(texts)})

    return find, store


@contextlib.asynccontextmanager
async def optimising(folder: Path) -> AsyncIterator[Callable[[], bool]]:
    """Wait until the optimisation that is due has begun; yields what tells whether it goes on."""

    def goes_on() -> bool:
        return servers.optimises(folder)

    began = time.monotonic()
    while not goes_on():
        await asyncio.sleep(0.1)
        if time.monotonic() - began > OPTIMISED_WITHIN:
            raise TimeoutError("the engine began no optimisation")
    began = time.monotonic()
    yield goes_on
    while goes_on() and time.monotonic() - began < OPTIMISED_WITHIN:
        await asyncio.sleep(0.1)
    print(f"optimised in {time.monotonic() - began:.1f} s")


async def during(
    callers: Sequence[Call],
    busy: Callable[[], bool] | None = None,
    seconds: float = SECONDS,
) -> Figures:
    """Lag while each caller calls again and again, for some seconds or as long as `busy`."""
    stop = asyncio.Event()
    counts = [0] * len(callers)

    async def again(number: int, call: Call) -> None:
        while not stop.is_set():
            await call()
            counts[number] += 1

    began = time.perf_counter()
    late: list[float] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(tick(late, stop))
        for number, call in enumerate(callers):
            group.create_task(again(number, call))
        await asyncio.sleep(seconds if busy is None else 0.2)
        while busy is not None and busy():
            await asyncio.sleep(0.2)
        stop.set()
    spent = time.perf_counter() - began
    return {
        "p50": statistics.median(late),
        "p95": statistics.quantiles(late, n=20)[-1],
        "p99": statistics.quantiles(late, n=100)[-1],
        "max": max(late),
        "calls/s": sum(counts) / spent,
    }


async def tick(late: list[float], stop: asyncio.Event) -> None:
    """Note how late each tick is, in ms; ticks that were missed count as well."""
    while not stop.is_set():
        due = time.perf_counter() + TICK / 1000
        await asyncio.sleep(TICK / 1000)
        lag = max((time.perf_counter() - due) * 1000, 0.0)
        late.extend(lag - missed * TICK for missed in range(int(lag / TICK) + 1))
