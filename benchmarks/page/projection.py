"""What a map costs: reading the vectors, laying them out, a further query on it, its bytes.

    python benchmarks/page/projection.py --model PATH [--points 10000] [--queries 40]
        [--json out.json]

PATH is a folder with all-MiniLM-L6-v2 as EMBEDDING_MODEL_PATH takes it. The points are made up:
384 dimensions around 40 middles, with texts of their own, in the embedded engine. A query is a new
one each time; `find` is the same search without a map. Wall and processor time, milliseconds.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import numpy as np
from opened import opened
from qdrant_client import models

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.projection.encode import encode
from mcp_server_qdrant.projection.panels import lay_out
from mcp_server_qdrant.qdrant.read.sample import Sampler
from mcp_server_qdrant.settings.engine import CONTENT_FIELDS

SIZE, MIDDLES, BATCH = 384, 40, 500
VECTOR = "fast-all-minilm-l6-v2"
WORDS = [
    *("backup", "router", "bread", "meeting", "garden"),
    *("invoice", "holiday", "battery", "window", "music"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    args = parser.parse_args()
    figures = asyncio.run(measured(args))
    for name, value in figures.items():
        print(f"{name:34} {value}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))


async def measured(args: argparse.Namespace) -> dict[str, Any]:
    async with opened(args.model, qdrant_read_only=True) as services:
        await fill(services, args.points)
        return await figures_of(services, args)


async def fill(services: Services, points: int) -> None:
    chance = np.random.default_rng(7)
    middles = chance.normal(size=(MIDDLES, SIZE))
    vectors = middles[chance.integers(MIDDLES, size=points)] + chance.normal(size=(points, SIZE))
    await services.client.create_collection(
        "notes",
        vectors_config={VECTOR: models.VectorParams(size=SIZE, distance=models.Distance.COSINE)},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    for start in range(0, points, BATCH):
        await services.client.upsert(
            "notes",
            [
                models.PointStruct(
                    id=f"{number:08x}-0000-4000-8000-{number:012x}",
                    vector={VECTOR: vectors[number].tolist()},
                    payload={"document": f"{WORDS[number % 10]} {number} " * 40},
                )
                for number in range(start, min(start + BATCH, points))
            ],
        )


async def figures_of(services: Services, args: argparse.Namespace) -> dict[str, Any]:
    projector = services.projector
    (target,) = await services.catalog.resolve(["notes"])
    figures: dict[str, Any] = {}
    drawer = Sampler(services.client, CONTENT_FIELDS)
    drawn = await timed(figures, "read the vectors", lambda: drawer.sample(target, args.points))
    for turn in ("first", "again"):
        found = await timed(
            figures, f"lay out ({turn})", lambda: asyncio.to_thread(lay_out, [(target, drawn)])
        )
    await services.pipeline.search(
        SearchRequest(query="warm up", collections=("notes",))
    )  # the model is loaded
    await timed(figures, "first map", lambda: projector.view(("notes",), args.points))
    with_map, without = [], []
    for number in range(args.queries):
        search = SearchRequest(
            query=f"{WORDS[number % 10]} question {number}", collections=("notes",)
        )
        with_map.append(await seconds(lambda s=search: projector.view(("notes",), args.points, s)))
        other = SearchRequest(query=f"{WORDS[number % 10]} demand {number}", collections=("notes",))
        without.append(await seconds(lambda r=other: services.pipeline.search(r)))
    figures["query on the map, p50 and p95"] = percentiles(with_map)
    figures["find without a map, p50 and p95"] = percentiles(without)
    seen = await projector.view(("notes",), args.points, search)
    for turn in ("first", "again"):
        encoded = await timed(figures, f"as JSON ({turn})", lambda: asyncio.to_thread(encode, seen))
    titles = sum(len(t) for p in encoded["panels"] for t in p["titles"])
    size = len(json.dumps(encoded, separators=(",", ":")))
    figures["bytes per point beside its title"] = round((size - titles) / args.points, 1)
    figures["points"] = sum(panel.count for panel in found.panels)
    return figures


async def timed(figures: dict[str, Any], name: str, work: Callable[[], Awaitable[Any]]) -> Any:
    wall, processor = time.perf_counter(), time.process_time()
    result = await work()
    spent = time.perf_counter() - wall, time.process_time() - processor
    figures[name] = f"{spent[0] * 1e3:.0f} ms wall, {spent[1] * 1e3:.0f} ms here"
    return result


async def seconds(work: Callable[[], Awaitable[Any]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


def percentiles(values: list[float]) -> str:
    cut = statistics.quantiles(values, n=20)
    return f"{statistics.median(values) * 1e3:.1f} / {cut[18] * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
