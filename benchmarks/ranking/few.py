"""Of many collections few are asked: what that costs in quality, and what it saves.

    python benchmarks/ranking/few.py DATA --model MODEL_FOLDER [--queries 50] [--collections 256]

All BEIR folders of DATA together are cut into so many collections of the embedded engine: by topic
(k-means of the vectors), and at random. Each query searches all of them twice, in turns: with the
default SEARCH_LIMITS, and with a bound that asks all. Printed per cut: nDCG@10 of both,
their ratio, the share of the first ten that are the same, the share of the collections asked, the
median time of a find and the median processor time of it, in this process and the engine host.
"""

import asyncio
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from corpora import Corpus, asked, vectors
from run import fill, ndcg

from mcp_server_qdrant.app.services import Services, open_services
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.qdrant.points import Points
from mcp_server_qdrant.settings.environment import Settings

TURNS = 12
EVERYTHING = 1_000_000


def by_topic(rows: np.ndarray, count: int) -> np.ndarray:
    """The group of each row by spherical k-means."""
    centres = rows[np.random.default_rng(1).choice(len(rows), count, replace=False)]
    for _ in range(TURNS):
        groups = np.argmax(rows @ centres.T, axis=1)
        for group in range(count):
            if (groups == group).any():
                middle = rows[groups == group].mean(axis=0)
                centres[group] = middle / np.linalg.norm(middle)
    return groups


def at_random(rows: np.ndarray, count: int) -> np.ndarray:
    """A random group for each row."""
    return np.random.default_rng(2).integers(0, count, len(rows))


def host_seconds(folder: Path) -> float:
    """The processor time of the engine host of a folder."""
    from mcp_server_qdrant.hosting.wire import Rendezvous
    from mcp_server_qdrant.qdrant.edge.wire import service

    host = Rendezvous.read(service(folder).rendezvous)
    fields = Path(f"/proc/{host.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def cut(services: Services, corpora: list[tuple[Corpus, np.ndarray]], groups: np.ndarray):
    """Write each group of documents as a collection."""
    points = Points(services.client, services.shared.settings.qdrant_content_fields)
    first = 0
    for corpus, rows in corpora:
        keys = list(corpus.documents)
        own = groups[first : first + len(rows)]
        for group in np.unique(own):
            places = np.flatnonzero(own == group)
            part = replace(corpus, documents={keys[n]: corpus.documents[keys[n]] for n in places})
            await fill(services, points, part, f"part-{group:04}", rows[places])
        first += len(rows)


async def compare(services: Services, corpora: list[Corpus], most: int, folder: Path) -> list[Any]:
    """Of each query, for few and for all: nDCG@10, results, collections asked, times."""
    understanding = services.pipeline.understanding
    limits = {
        "few": understanding.limits,
        "all": understanding.limits.model_copy(update={"collections": EVERYTHING}),
    }
    rows = []
    for corpus in corpora:
        for query, text in list(corpus.queries.items())[:most]:
            grades = {f"{corpus.name}/{d}": g for d, g in corpus.judgements[query].items()}
            request = SearchRequest(query=text, collections=("*",), limit=10)
            await services.pipeline.search(request)  # words are probed once
            row = {}
            for way, limit in limits.items():
                understanding.limits = limit
                began, used, hosted = time.perf_counter(), time.process_time(), host_seconds(folder)
                page = await services.pipeline.search(request)
                spent = time.perf_counter() - began
                used = time.process_time() - used + host_seconds(folder) - hosted
                ranking = [result.document.document or "" for result in page.results]
                row[way] = ndcg(ranking, grades), ranking, len(page.statuses), spent, used
            understanding.limits = limits["few"]
            rows.append(row)
    return rows


def told(name: str, rows: list[Any], collections: int) -> None:
    """Print the figures of a cut."""
    few, everything = ([row[way] for row in rows] for way in ("few", "all"))
    quality = [statistics.mean(one[0] for one in way) for way in (few, everything)]
    same = statistics.mean(
        len({*a[1]} & {*b[1]}) / max(len(b[1]), 1) for a, b in zip(few, everything, strict=True)
    )
    share = statistics.mean(one[2] for one in few) / collections
    spent = [statistics.median(one[3] for one in way) * 1000 for way in (few, everything)]
    used = [statistics.mean(one[4] for one in way) * 1000 for way in (few, everything)]
    print(
        f"{name}: nDCG@10 {quality[0]:.3f} few, {quality[1]:.3f} all, ratio "
        f"{quality[0] / quality[1]:.4f}; same {same:.3f}; asked {share:.0%} of {collections}; "
        f"find {spent[0]:.0f} ms few, {spent[1]:.0f} all; processor {used[0]:.0f}, {used[1]:.0f}",
        flush=True,
    )


async def main() -> None:
    arguments, corpora = asked(__doc__, queries=50, collections=256)
    for way in (by_topic, at_random):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            settings = Settings(
                qdrant_local_path=Path(folder, "engine"),
                cache_dir=Path(folder, "cache"),
                embedding_model_path=arguments.model,
            )
            services = await open_services(settings)
            await services.encoders.default.ready(60)
            encoder = services.encoders.default
            rows = [await vectors(corpus, encoder, arguments.cache) for corpus in corpora]
            groups = way(np.concatenate(rows), arguments.collections)
            await cut(services, list(zip(corpora, rows, strict=True)), groups)
            targets = await services.catalog.resolve(["*"])
            began = time.perf_counter()
            await services.pipeline.understanding.sketches.of(targets)
            await services.pipeline.understanding.sketches.settled()
            print(f"sketched {len(targets)} in {time.perf_counter() - began:.1f} s", flush=True)
            found = await compare(services, corpora, arguments.queries, settings.local_path)
            told(way.__name__, found, len(targets))
            await services.close()


if __name__ == "__main__":
    asyncio.run(main())
