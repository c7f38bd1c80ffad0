"""Renew the vectors that come with the demo's texts: `python scripts/demo_vectors.py MODEL_CACHE`.

Run it when a text of the demo changes, or how texts are cut into parts.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.ingest.demo import NAMES, VECTORS, demo_texts
from mcp_server_qdrant.settings.environment import Settings


async def main(model: str) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = Settings(
            qdrant_local_path=Path(folder) / "engine",
            qdrant_cache_path=Path(folder) / "cache",
            embedding_model_path=Path(model).absolute(),
        )
        services = await open_lazily(settings)
        try:
            assert await services.encoders.default.ready(60)
            made: dict[str, Any] = {}
            for name in NAMES:
                made[f"{name} spans"], made[name] = await parts(services, name)
        finally:
            await services.close()
    np.savez_compressed(VECTORS, **made)


async def parts(services: Services, name: str) -> tuple[Any, Any]:
    """Of each part of a collection's texts the text's number, start and end; and its vector."""
    spans, vectors = [], []
    for number, text in enumerate(demo_texts(name)):
        done = await services.store.store(text, name, create=True)
        points = await services.client.retrieve(name, done.ids, with_vectors=True)
        held = {str(point.id): point for point in points}
        for point in map(held.__getitem__, done.ids):
            doc = point.payload["doc"]
            spans.append((number, doc["start"], doc["end"]))
            vectors.append(next(value for key, value in point.vector.items() if key != "bm25"))
    return np.array(spans, np.int32), np.array(vectors, np.float16)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
