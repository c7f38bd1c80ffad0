"""Is the ranking right across collections? nDCG@10 and recall of the server's own pipeline.

    python benchmarks/ranking/run.py DATA --model MODEL_FOLDER [--queries 100]

DATA holds BEIR folders; each becomes a collection of the embedded engine. Per set the nDCG@10 of
four ways: together (each query searches all collections at once), apart (only its own), merged (one
big collection, plain RRF), round-robin (RRF per collection, merged by RRF score); and of the same
pipeline with one leg only, apart, so that the last line says what hybrid is worth. Behind it the
means of all sets, of recall too.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
from corpora import Corpus, asked, filled

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import Algorithm, Document, LegQuery, Sparse, Target
from mcp_server_qdrant.core.find import SearchRequest

MERGED = "merged"
Ranking = Sequence[str]


def ndcg(ranking: Ranking, grades: dict[str, int], depth: int = 10) -> float:
    """nDCG@depth with gains 2^grade - 1 (Burges et al. 2005)."""
    gains = [2 ** grades.get(document, 0) - 1 for document in ranking[:depth]]
    ideal = sorted((2**grade - 1 for grade in grades.values()), reverse=True)[:depth]
    best = sum(gain / math.log2(place + 2) for place, gain in enumerate(ideal))
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains)) / best


def recall(ranking: Ranking, grades: dict[str, int], depth: int) -> float:
    """The share of the relevant documents that are among the first `depth`."""
    return len(grades.keys() & set(ranking[:depth])) / len(grades)


class Search:
    """Every way of searching that is compared, as query text -> ranked document keys."""

    def __init__(self, services: Services, corpora: Sequence[Corpus]) -> None:
        self.services = services
        self.names = [corpus.name for corpus in corpora]

    async def pipeline(
        self, query: str, collections: Sequence[str], algorithm: Algorithm = "hybrid"
    ) -> Ranking:
        request = SearchRequest(
            query=query,
            collections=tuple(collections),
            limit=10,
            score_threshold=0.0,
            algorithm=algorithm,
        )
        page = await self.services.pipeline.search(request)
        return [self.key(result.document) for result in page.results]

    def key(self, document: Document) -> str:
        """The key of a document in the judgements."""
        return document.document or ""

    async def plain(self, query: str, target: Target) -> list[tuple[str, float]]:
        """The engine's RRF as it comes (k=60), with its own idf and no calibration."""
        dense = await self.services.encoders.encode_query(target.dense.model, query)
        terms = tuple(self.services.store.bm25.tokens(query))
        sparse = Sparse(terms, (1.0,) * len(terms))
        queries = self.services.pipeline.fetch.queries
        asked = [target], LegQuery(list(dense), sparse)
        (scored,), _ = await queries.search([asked], depth=30, condition=None)
        return [(c.payload["doc"]["id"], c.rrf) for c in scored.candidates]

    async def together(self, query: str, own: str) -> Ranking:
        return await self.pipeline(query, self.names)

    async def apart(self, query: str, own: str) -> Ranking:
        return await self.pipeline(query, [own])

    async def semantic(self, query: str, own: str) -> Ranking:
        return await self.pipeline(query, [own], "semantic")

    async def keyword(self, query: str, own: str) -> Ranking:
        return await self.pipeline(query, [own], "keyword")

    async def merged(self, query: str, own: str) -> Ranking:
        target = await self.services.catalog.target(MERGED)
        return [document for document, _ in await self.plain(query, target)]

    async def round_robin(self, query: str, own: str) -> Ranking:
        pooled = []
        for name in self.names:
            pooled += await self.plain(query, await self.services.catalog.target(name))
        pooled.sort(key=lambda pair: (-pair[1], pair[0]))
        return [document for document, _ in pooled]


async def measure(
    search: Callable[[str, str], Awaitable[Ranking]], corpora: Sequence[Corpus], most: int
) -> np.ndarray:
    """For each corpus the means of nDCG@10, recall@5 and recall@10."""
    means = []
    for corpus in corpora:
        scores = []
        for query, text in list(corpus.queries.items())[:most]:
            ranking = await search(text, corpus.name)
            grades = {f"{corpus.name}/{d}": g for d, g in corpus.judgements[query].items()}
            scores.append((ndcg(ranking, grades), *(recall(ranking, grades, n) for n in (5, 10))))
        means.append(np.mean(scores, axis=0))
    return np.array(means)


def verdict(hybrid: np.ndarray, semantic: np.ndarray, keyword: np.ndarray) -> str:
    """Hybrid against the better of its legs: in the mean over the sets, and at its worst."""
    mean = hybrid.mean() / max(semantic.mean(), keyword.mean()) - 1
    worst = (hybrid / np.maximum(semantic, keyword)).min() - 1
    kept = "holds" if mean > 0 and worst >= -0.02 else "DOES NOT HOLD"
    return (
        f"hybrid against the better leg: {mean:+.1%} in the mean, {worst:+.1%} on its worst set; "
        f"more in the mean and no more than 2 % less on any set: {kept}"
    )


async def main() -> None:
    arguments, corpora = asked(__doc__, queries=10_000)
    async with filled(arguments, corpora, MERGED) as services:
        search = Search(services, corpora)
        ways = {
            "together": search.together,
            "apart": search.apart,
            "merged, plain RRF": search.merged,
            "round-robin by RRF": search.round_robin,
            "semantic, apart": search.semantic,
            "keyword, apart": search.keyword,
        }
        print(
            f"{'nDCG@10':22}",
            *(f"{corpus.name:>10}" for corpus in corpora),
            "      mean  recall@5 recall@10",
        )
        means = {}
        for name, way in ways.items():
            table = await measure(way, corpora, arguments.queries)
            means[name] = table[:, 0]
            figures = [*means[name], *table.mean(axis=0)]
            print(f"{name:22}", *(f"{mean:10.3f}" for mean in figures), flush=True)
        print(verdict(*(means[f"{name}apart"] for name in ("", "semantic, ", "keyword, "))))


if __name__ == "__main__":
    asyncio.run(main())
