"""Where the time of a find goes, phase by phase.

    python benchmarks/phases.py [--model-cache PATH] [--queries 200]

The server's tool is called inside this process, over the collections that versus_official and
scaling have written (run those first); each phase is timed where it happens. Terms and embedding
run at the same time, and the collections of one search share the two trips to the engine host.
"""

import argparse
import asyncio
import functools
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import servers
from lag import tools

from mcp_server_qdrant.app.models import open_encoders
from mcp_server_qdrant.app.services import Services, wire
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.search import pipeline as path
from mcp_server_qdrant.search import ranking
from mcp_server_qdrant.settings.environment import Settings

BENCH = servers.BUILD / "bench"
WARM_UP = 20
CASES = {
    "1,000 points": (BENCH / "ours-1000", servers.COLLECTION),
    "10,000 points": (BENCH / "ours-10000", servers.COLLECTION),
    "64 collections of 1,000": (BENCH / "collections", None),
}


class Clock:
    """Milliseconds spent in each phase of each find; overlapping calls of a phase count once."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = now
        self.finds: list[dict[str, float]] = []
        self._now: dict[str, float] = defaultdict(float)
        self._inside: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))

    def enter(self, phase: str) -> None:
        """A call of this phase begins."""
        running, since = self._inside[phase]
        self._inside[phase] = (running + 1, since if running else self._seconds())

    def leave(self, phase: str) -> None:
        """A call of this phase ends."""
        running, since = self._inside[phase]
        self._inside[phase] = (running - 1, since)
        if running == 1:
            self._now[phase] += (self._seconds() - since) * 1000

    def end_find(self) -> None:
        """The find is over."""
        self.finds.append(dict(self._now))
        self._now.clear()

    def watch(self, owner: Any, name: str, phase: str) -> None:
        """Time `owner.name` as a part of `phase`."""
        original: Callable[..., Any] = getattr(owner, name)
        if asyncio.iscoroutinefunction(original):

            @functools.wraps(original)
            async def timed(*args: Any, **kwargs: Any) -> Any:
                self.enter(phase)
                try:
                    return await original(*args, **kwargs)
                finally:
                    self.leave(phase)
        else:

            @functools.wraps(original)
            def timed(*args: Any, **kwargs: Any) -> Any:
                self.enter(phase)
                try:
                    return original(*args, **kwargs)
                finally:
                    self.leave(phase)

        setattr(owner, name, timed)


PHASES = ("collections", "terms", "embedding", "candidates", "payloads",
          "calibrate", "present")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    parser.add_argument("--queries", type=int, default=200)
    args = parser.parse_args()
    cache = servers.model_cache(args.model_cache)
    columns = {}
    for name, (folder, collection) in CASES.items():
        if not folder.exists():
            sys.exit("run versus_official/run.py and scaling.py first: they write the collections")
        columns[name] = asyncio.run(measured(folder, collection, cache, args.queries))
    print(f"| median ms | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|")
    for phase in (*PHASES, "whole call", "engine trips"):
        print(f"| {phase} | {' | '.join(f'{c[phase]:.2f}' for c in columns.values())} |")


async def measured(
    folder: Path, collection: str | None, cache: Path, count: int
) -> dict[str, float]:
    """Median ms by phase over one folder; all its collections where none is named."""
    settings = Settings(
        qdrant_local_path=folder, fastembed_cache_path=cache, collection_name=collection
    )
    client = await EdgeClient.open(folder)
    services = wire(settings, client, open_encoders(settings))
    clock, trips = Clock(), 0

    def counted(call: Any) -> Any:
        @functools.wraps(call)
        async def one(*args: Any, **kwargs: Any) -> Any:
            nonlocal trips
            trips += 1
            return await call(*args, **kwargs)

        return one

    try:
        await services.encoders.default.ready(60)
        watch(clock, services)
        client._ask = counted(client._ask)  # noqa: SLF001
        find, _ = tools(settings, services)
        for number in range(WARM_UP + count):
            clock.enter("whole call")
            await find()
            clock.leave("whole call")
            clock.end_find()
            if number == WARM_UP - 1:
                clock.finds.clear()
                trips = 0
    finally:
        await services.close()
    medians = {
        phase: statistics.median(find.get(phase, 0.0) for find in clock.finds)
        for phase in (*PHASES, "whole call")
    }
    return {**medians, "engine trips": trips / count}


def watch(clock: Clock, services: Services) -> None:
    """Time the phases where the pipeline calls them."""
    search = services.pipeline
    clock.watch(search.understanding.catalog, "resolve", "collections")
    clock.watch(search.understanding.terms, "weighed", "terms")
    clock.watch(search.understanding, "encode", "embedding")
    clock.watch(search.fetch.queries, "search", "candidates")
    clock.watch(search.fetch.queries, "payloads", "payloads")
    for module, name in ((path, "present"), (ranking, "calibrate")):
        setattr(module, name, getattr(getattr(module, name), "__wrapped__", getattr(module, name)))
        clock.watch(module, name, name)


if __name__ == "__main__":
    main()
