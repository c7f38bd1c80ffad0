"""A find over 1 to 1,024 collections: the embedded engine, and a Qdrant server.

It is scaling.py's part `engines`. The pipeline is called inside this process, so that its processor
time can be read. That includes the model and the embedded engine; a Qdrant server has a process of
its own.
"""

import asyncio
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import corpus
import numpy as np
import servers
from fill_ours import NEVER, synthetic_notes, write

from mcp_server_qdrant.app.models import open_encoders
from mcp_server_qdrant.app.process import local_models
from mcp_server_qdrant.app.services import Services, assemble
from mcp_server_qdrant.core.context import PHASES, Recorder, recording
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.edge import optimise
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.settings.environment import Settings

MOST = 1024  # collections
EACH = 22  # points of a collection
WARM = 3  # finds of a kind, untimed
QUIET = 0.05  # seconds of the processor in one
PREFIX = "scaling-"
BENCH = servers.BUILD / "bench"


@dataclass
class Figures:
    """Of each find: collections asked, and milliseconds: in all, by phase, of the processor."""

    asked: list[int] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    phases: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


class Phases(Recorder):
    """The phases of the find under way, in milliseconds."""

    def __init__(self) -> None:
        self.now: dict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: Any) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.now[name] += (time.perf_counter() - began) * 1000


def measure(
    url: str, cache: Path, vectors: np.ndarray, queries: int, counts: Sequence[int]
) -> dict[str, Any]:
    """Print the table; returns p50 in ms by engine and number of collections."""
    figures = asyncio.run(measured(url, cache, vectors, queries, counts))
    columns = ("asked", "p50", *PHASES, "processor", "processor of one asked")
    print(f"\n| engine | collections of {EACH} points | {' | '.join(columns)} | to one |")
    print(f"|---|---|{'---|' * len(columns)}---|")
    for (engine, count), found in figures.items():
        p50 = statistics.median(found.spent)
        processor = statistics.median(found.processor)
        phases = [statistics.median(found.phases[phase]) for phase in PHASES]
        one = statistics.median(figures[engine, counts[0]].spent)
        asked = statistics.median(found.asked)
        cells = [f"{asked:.0f}", *(f"{value:.1f}" for value in (p50, *phases, processor))]
        print(
            f"| {engine} | {count} | {' | '.join(cells)} | {processor / asked:.2f} "
            f"| {p50 / one:.1f} |"
        )
    return {
        f"{engine} {count}": statistics.median(found.spent)
        for (engine, count), found in figures.items()
    }


async def measured(
    url: str, cache: Path, vectors: np.ndarray, queries: int, counts: Sequence[int]
) -> Mapping[tuple[str, int], Figures]:
    """The finds of all kinds in turns; every query is asked once."""
    names = [f"{PREFIX}{number:04}" for number in range(max(counts))]
    figures: dict[tuple[str, int], Figures] = defaultdict(Figures)
    ways: dict[str, dict[str, Any]] = {
        "Edge": {"qdrant_local_path": BENCH / "engines"},
        "server": {"qdrant_url": url},
    }
    async with AsyncExitStack() as stack:
        opened = {}
        for engine, way in ways.items():
            opened[engine] = await stack.enter_async_context(services(cache, way))
            await prepare(opened[engine][0].client, names, vectors)
            await find(*opened[engine], SearchRequest(query="all", collections=("*",)), None)
            for name in names:
                await opened[engine][0].client.scroll(name, limit=1)  # Edge opens it
        await idle()
        texts = iter(corpus.queries((queries + WARM) * len(counts) * len(ways), seed=37))
        for number in range(-WARM, queries):
            for count in counts:
                for engine, (made, phases) in opened.items():
                    found = figures[engine, count] if number >= 0 else None
                    asked = SearchRequest(query=next(texts), collections=below(count))
                    await find(made, phases, asked, found)
    return figures


def below(count: int) -> tuple[str, ...]:
    """Patterns of the first `count` collections: of those that are named all would be asked."""
    digits = f"{count:04}"
    return tuple(
        f"{PREFIX}{digits[:place]}[0-{int(digit) - 1}]{'?' * (3 - place)}"
        for place, digit in enumerate(digits)
        if digit != "0"
    )


async def find(
    made: Services, phases: Phases, request: SearchRequest, figures: Figures | None
) -> None:
    """One find, and what it took; without figures it warms, and may come too early."""
    phases.now.clear()
    began, worked = time.perf_counter(), time.process_time()
    with recording(phases):
        page = await made.pipeline.search(request)
    if figures is None:
        return
    figures.spent.append((time.perf_counter() - began) * 1000)
    figures.processor.append((time.process_time() - worked) * 1000)
    figures.asked.append(len(page.statuses))
    assert all(status.state == "ok" for status in page.statuses), page.statuses[-1]
    for phase in PHASES:
        figures.phases[phase].append(phases.now[phase])


async def idle() -> None:
    """Wait until the work of the start is done: a server looks through its collections once."""
    used = -1.0
    while time.process_time() - used > QUIET:
        used = time.process_time()
        await asyncio.sleep(1)


@asynccontextmanager
async def services(cache: Path, way: Mapping[str, Any]) -> AsyncIterator[tuple[Services, Phases]]:
    """The services over one engine, with the phases that they record."""
    settings = Settings(
        fastembed_cache_path=cache,
        qdrant_collections=(f"{PREFIX}*",),
        **way,
    )
    if settings.qdrant_url is None:
        optimise.QUIET_SECONDS = NEVER
        client: Any = await EdgeClient.open(settings.local_path, timeout=60)
    else:
        client = await open_client(
            url=settings.qdrant_url,
            timeout=60,
        )
    made = assemble(settings, client, open_encoders(settings, local_models()))
    phases = Phases()
    try:
        await made.encoders.default.ready(60)
        yield made, phases
    finally:
        await made.close()


async def prepare(client: Any, names: list[str], vectors: np.ndarray) -> None:
    """Write the collections that are not there."""
    there = {found.name for found in (await client.get_collections()).collections}
    notes = synthetic_notes(EACH * len(names), vectors, seed=41)
    for number, name in enumerate(names):
        if name not in there:
            await write(client, name, notes.part(number * EACH, (number + 1) * EACH))
