"""What a text index is worth beside keyword vectors: nDCG@10 of collections of another tool.

    python benchmarks/ranking/index_only.py DATA --model MODEL_FOLDER [--queries 100]

DATA holds BEIR folders; each becomes a collection of the embedded engine as the official server
leaves it: one dense vector, the text in `document`. They are searched by meaning only, then with
`upgrade --index-only`, then with the vectors that `upgrade` adds; together and apart.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from corpora import asked, encoded, vectors
from qdrant_client import models
from run import Search, measure

from mcp_server_qdrant.app.services import open_services
from mcp_server_qdrant.app.upkeep import upgrades_of
from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.environment import Settings


class Numbered(Search):
    """Searches of points whose metadata holds the key."""

    def key(self, document: Document) -> str:
        return str((document.metadata or {})["key"])


async def main() -> None:
    arguments, corpora = asked(__doc__, queries=10_000)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = Settings(qdrant_local_path=Path(folder), embedding_model_path=arguments.model)
        services = await open_services(settings)
        encoder = services.encoders.default
        await encoder.ready(60)
        size = models.VectorParams(size=await encoder.size(), distance=models.Distance.COSINE)
        for corpus in corpora:
            rows = await vectors(corpus, encoder, arguments.cache)
            await services.client.create_collection(corpus.name, {encoder.vector_name: size})
            points = [
                models.PointStruct(
                    id=number,
                    vector={encoder.vector_name: row.tolist()},
                    payload={
                        "document": encoded(*document),
                        "metadata": {"key": f"{corpus.name}/{key}"},
                    },
                )
                for number, ((key, document), row) in enumerate(
                    zip(corpus.documents.items(), rows, strict=True)
                )
            ]
            for start in range(0, len(points), 500):
                await services.client.upsert(corpus.name, points[start : start + 500])
        search = Numbered(services, corpora)
        upgrades = upgrades_of(settings, Bulk(services.client, settings.qdrant_content_fields))
        print(f"{'nDCG@10':34}", *(f"{corpus.name:>10}" for corpus in corpora), "      mean")
        for state, upgrade in (
            ("meaning only", None),
            ("--index-only", upgrades.index),
            ("keyword vectors", upgrades.keywords),
        ):
            began = time.perf_counter()
            for corpus in corpora if upgrade else ():
                await upgrade(corpus.name)
                services.catalog.forget(corpus.name)
            took = time.perf_counter() - began
            for way in (search.together, search.apart, search.keyword):
                if state == "meaning only" and way == search.keyword:
                    continue
                means = (await measure(way, corpora, arguments.queries))[:, 0]
                figures = (f"{mean:10.3f}" for mean in [*means, means.mean()])
                print(f"{state + ', ' + way.__name__:34}", *figures, flush=True)
            print(f"{'':34} upgraded in {took:.1f} s")
        await services.close()


if __name__ == "__main__":
    asyncio.run(main())
