"""Write prepared points as the official server 0.8.1 writes them. Runs with *its* Python.

    python fill_official.py FOLDER COLLECTION TEXTS.jsonl VECTORS.npy COUNT

The collection is created by its own QdrantConnector; the points have its payload and its vector
name, only their vectors were made beforehand.
"""

import asyncio
import json
import sys
import uuid
from itertools import islice
from pathlib import Path

import numpy as np
from qdrant_client import models

from mcp_server_qdrant.embeddings.fastembed import FastEmbedProvider
from mcp_server_qdrant.qdrant import QdrantConnector

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


async def fill(folder: str, collection: str, lines: Path, vectors: Path, count: int) -> None:
    provider = FastEmbedProvider(MODEL)
    connector = QdrantConnector(None, None, collection, provider, folder)
    await connector._ensure_collection_exists(collection)  # noqa: SLF001
    client = connector._client  # noqa: SLF001
    name = provider.get_vector_name()
    rows = np.load(vectors)
    with lines.open(encoding="utf-8") as file:
        notes = [json.loads(line) for line in islice(file, count)]
    points = [
        models.PointStruct(
            id=uuid.uuid4().hex,
            vector={name: row.tolist()},
            payload={"document": note["text"], "metadata": note["metadata"]},
        )
        for note, row in zip(notes, rows, strict=False)
    ]
    for start in range(0, len(points), 500):
        await client.upsert(collection, points[start : start + 500])
    found = await client.count(collection, exact=True)
    await client.close()
    if found.count != count:
        raise SystemExit(f"wrote {count} points, found {found.count}")


if __name__ == "__main__":
    folder, collection, lines, vectors, count = sys.argv[1:]
    asyncio.run(fill(folder, collection, Path(lines), Path(vectors), int(count)))
