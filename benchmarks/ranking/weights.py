"""What titles and the dense share should count: nDCG@10 of the server's own pipeline.

    python benchmarks/ranking/weights.py DATA --model MODEL_FOLDER [--queries 100]

DATA holds BEIR folders; each becomes a collection of the embedded engine, searched together with
the others and apart. Title factors 1 and 3, in collections of this server and in such as other
tools make (`foreign`: BM25 of the text alone). Dense shares from 0.4 to 0.8.
The p value is that of a paired t-test over all queries against the first line of its kind.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import run
from corpora import Corpus, asked, vectors
from qdrant_client import models
from run import fill, ndcg
from scipy.stats import ttest_rel

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.qdrant.write.points import Points
from mcp_server_qdrant.search import relevance
from mcp_server_qdrant.settings.environment import Settings

HALF = 0.5


async def fill_foreign(services: Services, points: Points, corpus: Corpus, rows: np.ndarray):
    """A corpus as another tool stores it: the title in the payload, BM25 of the text alone."""
    how = await services.store.blueprint(corpus.name)
    await points.create(corpus.name, how)
    services.catalog.forget(corpus.name)
    target = await services.catalog.target(corpus.name)
    bm25 = services.store.bm25
    batch = []
    for number, ((key, (title, text)), row) in enumerate(
        zip(corpus.documents.items(), rows, strict=True)
    ):
        sparse = bm25.encode_document(text)
        words = models.SparseVector(indices=list(sparse.indices), values=list(sparse.values))
        vector = {target.dense.vector: row.tolist()} | ({"bm25": words} if sparse.indices else {})
        payload = {"text": text, "title": title, "metadata": {"key": f"{corpus.name}/{key}"}}
        batch.append(models.PointStruct(id=number, vector=vector, payload=payload))
        if len(batch) == 200:
            await services.client.upsert(corpus.name, batch)
            batch = []
    if batch:
        await services.client.upsert(corpus.name, batch)
    services.catalog.forget(corpus.name)


class Measure:
    """nDCG@10 of every query under a setting, beside that of the first."""

    def __init__(self, corpora: Sequence[Corpus], most: int) -> None:
        self.corpora, self.most = corpora, most
        self.names = tuple(corpus.name for corpus in corpora)
        self.first: dict[str, np.ndarray] = {}

    async def line(self, name: str, services: Services, share: float, algorithm: str) -> None:
        pipeline = services.pipeline
        pipeline.understanding.rules = replace(pipeline.understanding.rules, alpha=share)
        for where in ("together", "apart"):
            scores = [await self._of(services, one, where, algorithm) for one in self.corpora]
            means = [float(np.mean(one)) for one in scores]
            every = np.concatenate(scores)
            kind = name.partition(",")[0]
            first = self.first.setdefault(f"{where} {algorithm} {kind}", every)
            p = "" if every is first else f"  p={ttest_rel(every, first).pvalue:.3f}"
            figures = " ".join(f"{mean:9.4f}" for mean in [*means, float(np.mean(means))])
            print(f"{name:26} {algorithm:9} {where:9} {figures}{p}", flush=True)

    async def _of(self, services: Services, one: Corpus, where: str, algorithm: str) -> np.ndarray:
        searched = self.names if where == "together" else (one.name,)
        scores = []
        for query, text in list(one.queries.items())[: self.most]:
            request = SearchRequest(
                query=text,
                collections=searched,
                limit=10,
                score_threshold=0.0,
                mode="full",
                algorithm=algorithm,
            )
            page = await services.pipeline.search(request)
            ranking = [
                d.document or (d.metadata or {}).get("key")
                for d in (result.document for result in page.results)
            ]
            grades = {f"{one.name}/{d}": g for d, g in one.judgements[query].items()}
            scores.append(ndcg(ranking, grades))
        return np.array(scores)


async def main() -> None:
    arguments, corpora = asked(__doc__, queries=10_000)
    measure = Measure(corpora, arguments.queries)
    print(f"{'nDCG@10':46}", *(f"{name:>9}" for name in measure.names), "     mean")
    for foreign in (False, True):
        for factor in (1, 3):
            with tempfile.TemporaryDirectory() as folder:
                settings = Settings(
                    qdrant_local_path=Path(folder),
                    embedding_model_path=arguments.model,
                )
                services = await open_lazily(settings)
                run.TITLE_FACTOR, relevance.TITLE_GAIN = factor, (factor - 1) / 10
                await services.encoders.default.ready(60)
                points = Points(services.client, settings.qdrant_content_fields)
                for corpus in corpora:
                    rows = await vectors(corpus, services.encoders.default, arguments.cache)
                    if foreign:
                        await fill_foreign(services, points, corpus, rows)
                    else:
                        await fill(services, points, corpus, corpus.name, rows)
                name = f"{'foreign' if foreign else 'own'}, title factor {factor}"
                for algorithm in ("hybrid", "keyword"):
                    await measure.line(name, services, HALF, algorithm)
                if not foreign and factor == 3:
                    for step in (0.5, 0.4, 0.6, 0.7, 0.8):
                        await measure.line(f"share, {step}", services, step, "hybrid")
                await services.close()


if __name__ == "__main__":
    asyncio.run(main())
