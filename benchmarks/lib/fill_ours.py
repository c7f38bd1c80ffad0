"""Write prepared points into our collections through the package's own write side.

The collections are what `qdrant-store` would have made; only the dense vectors were computed
beforehand, since one text after the other through the tool would take hours.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import (
    MODEL_KEY,
    SPARSE_NAME,
    DenseLeg,
    Document,
    SparseLeg,
    Target,
)
from mcp_server_qdrant.core.notation import point_id
from mcp_server_qdrant.core.writes import Encoded
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.qdrant.edge import optimise
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.write.points import Blueprint, Points

VECTOR = "fast-all-minilm-l6-v2"
BATCH = 500
NEVER = 1e7  # as the pause in writing after which the engine would optimise
WRITTEN = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Notes:
    """Texts with their metadata and their vectors, float32 [n, 384]."""

    texts: Sequence[str]
    metadata: Sequence[Mapping[str, Any]]
    vectors: np.ndarray

    def part(self, start: int, stop: int) -> "Notes":
        """The notes from `start` to `stop`."""
        span = slice(start, stop)
        return Notes(self.texts[span], self.metadata[span], self.vectors[span])


def notes_of(lines: Path, vectors: Path, count: int) -> Notes:
    """The first `count` of the prepared notes."""
    with lines.open(encoding="utf-8") as file:
        notes = [json.loads(line) for line in islice(file, count)]
    return Notes(
        [n["text"] for n in notes], [n["metadata"] for n in notes], np.load(vectors)[:count]
    )


def synthetic_notes(count: int, real: np.ndarray, seed: int) -> Notes:
    """Notes with made-up vectors around real ones; their texts are written like the others."""
    texts = corpus.texts(count, seed)
    return Notes(texts, [corpus.metadata(i) for i in range(count)], corpus.synthetic(count, real))


async def fill(folder: Path, collections: Mapping[str, Notes]) -> None:
    """Make each collection in the embedded folder and write its notes; nothing is optimised."""
    usual, optimise.QUIET_SECONDS = optimise.QUIET_SECONDS, NEVER
    client = await EdgeClient.open(folder, timeout=120)
    try:
        for name, notes in collections.items():
            await write(client, name, notes)
    finally:
        await client.close()
        optimise.QUIET_SECONDS = usual  # the caller may measure in this process


async def write(client: AsyncQdrantBase, collection: str, notes: Notes) -> None:
    """Make one collection and write its notes. Raises AssertionError when points are missing."""
    points = Points(client, ("document",))
    blueprint = Blueprint(VECTOR, corpus.DIMENSIONS, {MODEL_KEY: corpus.MODEL})
    await points.create(collection, blueprint)
    dense = DenseLeg(VECTOR, corpus.DIMENSIONS, "cosine", corpus.MODEL)
    target = Target(collection, 0, dense, SparseLeg(SPARSE_NAME, idf=True))
    bm25 = Bm25Encoder()
    for start in range(0, len(notes.texts), BATCH):
        part = notes.part(start, start + BATCH)
        await points.upsert(target, stored(collection, part, start, bm25))
    found = await client.count(collection, exact=True)
    assert found.count == len(notes.texts), f"{found.count} of {len(notes.texts)} points"


def stored(collection: str, notes: Notes, start: int, bm25: Bm25Encoder) -> list[Encoded]:
    """The points of some notes; `start` is the number of the first."""
    points = []
    rows = zip(notes.texts, notes.metadata, notes.vectors.tolist(), strict=True)
    for number, (text, metadata, vector) in enumerate(rows, start):
        document = Document(
            id=point_id(collection, f"note-{number}", 0),
            collection=collection,
            text=text,
            metadata=metadata,
            created_at=WRITTEN,
            updated_at=WRITTEN,
            document=f"note-{number}",
            start=0,
            end=len(text),
        )
        points.append(Encoded(document, vector, bm25.encode_document(text)))
    return points
