"""What the ranking steps cost after retrieval, beside the engine's own time for the same find.

    python benchmarks/ranking_steps.py [--model-cache PATH] [--queries 100]

Eight collections of the embedded engine, 500 notes of about a hundred words in each, one note in
ten in all of them; each gives 30 candidates or more. The steps are timed where the pipeline calls
them: as the settings have them by default, and with everything on (preference, and a
reranker that answers at once, so that only our own part of it counts). Their time is that of the
event loop's thread, which a busy machine does not stretch; the engine's is what the clock shows.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import servers
from fill_ours import NEVER, Notes, write
from phases import Clock

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from mcp_server_qdrant.search import pipeline as path
from mcp_server_qdrant.search import ranking
from mcp_server_qdrant.search.rerank import Rerank
from mcp_server_qdrant.settings.environment import Settings

COLLECTIONS = tuple("abcdefgh")
EACH, SHARED, SENTENCES = 500, 50, 8
STEPS = (
    *("calibrate", "lift_tags", "boost", "lift_titles", "lift_verbatim", "group"),
    *("lift_neighbours", "decay", "retire", "fold", "fuzzy", "cut"),
)
ALL = (*STEPS, "rerank", "present")
TARGET = 5.0
WARM_UP = 10


class Instant:
    """A reranker that takes no time."""

    name, logits, length = "instant", False, 2_000

    def start(self) -> None: ...

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        return [(n * 7 % 30) / 30 for n in range(len(texts))]

    async def close(self) -> None: ...


def notes() -> dict[str, Notes]:
    """The notes of each collection; the shared ones come first."""
    sentences = iter(corpus.texts(SENTENCES * EACH * len(COLLECTIONS)))
    generator = np.random.default_rng(1)
    made = {}
    shared: tuple[list[str], np.ndarray] | None = None
    for name in COLLECTIONS:
        texts = [" ".join(next(sentences) for _ in range(SENTENCES)) for _ in range(EACH)]
        rows = generator.standard_normal((EACH, corpus.DIMENSIONS), dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        if shared is not None:
            texts[:SHARED], rows[:SHARED] = shared
        shared = texts[:SHARED], rows[:SHARED]
        made[name] = Notes(texts, [corpus.metadata(i) for i in range(EACH)], rows)
    return made


async def measured(services: Services, queries: Sequence[str]) -> dict[str, float]:
    """Median milliseconds of each step, of the engine and of the whole find."""
    steps, waits = Clock(time.thread_time), Clock()
    search: Any = services.pipeline
    for name in STEPS:
        steps.watch(ranking, name, name)
    steps.watch(search.rerank, "apply", "rerank")
    steps.watch(path, "present", "present")
    waits.watch(search, "search", "find")
    waits.watch(search.fetch.queries, "search", "engine")
    waits.watch(search.fetch.queries, "payloads", "engine")
    for query in queries:
        await search.search(SearchRequest(query=query))
        steps.end_find()
        waits.end_find()
    sums = sorted(sum(find.values()) for find in steps.finds[WARM_UP:])
    medians = {
        name: statistics.median(find.get(name, 0.0) for find in clock.finds[WARM_UP:])
        for clock, names in ((steps, ALL), (waits, ("engine", "find")))
        for name in names
    }
    return medians | {"all steps": statistics.median(sums), "p95": sums[-len(sums) // 20]}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    parser.add_argument("--queries", type=int, default=100)
    args = parser.parse_args()
    cache = servers.model_cache(args.model_cache)
    queries = corpus.queries(args.queries + WARM_UP)
    random.Random(1).shuffle(queries)
    originals = [(ranking, name, getattr(ranking, name)) for name in STEPS]
    originals.append((path, "present", path.present))
    columns = {}
    with tempfile.TemporaryDirectory() as folder:
        client = await EdgeClient.open(Path(folder), options=EdgeOptions(quiet_seconds=NEVER))
        for name, some in notes().items():
            await write(client, name, some)
        await client.close()
        usual = Settings(qdrant_local_path=Path(folder), fastembed_cache_path=cache)
        full = {
            "qdrant_collection_priority_order": COLLECTIONS[:3],
            "priority": "soft",
        }
        for title, settings in (
            ("by default", usual),
            (
                "everything on",
                usual.model_copy(update=full | {"rerank": True, "rerank_provider": "none"}),
            ),
        ):
            services = await open_lazily(settings)
            await services.encoders.default.ready(60)
            if settings.rerank:
                services.pipeline.rerank = Rerank(Instant())
            columns[title] = await measured(services, queries)
            for module, name, step in originals:
                setattr(module, name, step)
            await services.close()
    report(columns)


def report(columns: dict[str, dict[str, float]]) -> None:
    print(f"| ms | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|")
    for row in (*ALL, "all steps", "p95", "engine", "find"):
        print(f"| {row} | {' | '.join(f'{column[row]:.2f}' for column in columns.values())} |")
    verdict = "met" if columns["by default"]["all steps"] < TARGET else "MISSED"
    print(f"\nAll steps by default under {TARGET:.0f} ms: {verdict}")


if __name__ == "__main__":
    asyncio.run(main())
