"""The demo's texts, with the vectors that the default model makes: there at once, without it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcp_server_qdrant.core.datatypes import Chunk, Dense, NewDocument
from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.core.notation import moment
from mcp_server_qdrant.ingest.encoding import encoded_text
from mcp_server_qdrant.ingest.store import Store
from mcp_server_qdrant.ingest.writer import Job

TEXTS = Path(__file__).parent / "demo_data"
NAMES = ("homelab", "meetings", "recipes")
VECTORS = TEXTS / "vectors.npz"  # made by scripts/demo_vectors.py
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


async def store_demo(store: Store, name: str) -> int:
    """Store one of the demo's collections, and count its texts; those that are there stay.

    With another model vectors are made, as of all texts.
    """
    await store.ensure(name, create=True)
    target = await store.writable(name)
    await store.index(name)
    model = target.dense.model if target.dense else None
    encoder = store.encoders.of(model)
    writer = store.writer(target, encoder.encode_documents if target.dense else None)
    texts, jobs = demo_texts(name), list[Job]()
    for text, (pieces, vectors) in zip(texts, demo_parts(name, texts), strict=True):
        parts = store.parts(text, name, str(text.id), None, pieces)
        known = dict(zip(map(encoded_text, parts), vectors, strict=True))
        jobs.append(Job(parts=parts, vectors=known if model == MODEL else {}))
    there = await store.points.by_id(name, [job.parts[0].id for job in jobs])
    jobs = [job for job in jobs if job.parts[0].id not in {one.id for one in there}]
    try:
        await writer.store(jobs, _told)
    except EncoderUnavailable as error:
        await writer.do_without(error)
        await writer.store(jobs, _told)
        store.pending()
    await writer.settle([point for job in jobs for point in job.marked])
    store.catalog.forget(name)
    return len(texts)


async def _told(*_: Any) -> None:
    """Nobody waits to be told what was written."""


def demo_texts(name: str) -> list[NewDocument]:
    """The texts of a collection."""
    rows = map(json.loads, (TEXTS / f"{name}.jsonl").read_text("utf-8").splitlines())
    return [
        NewDocument(
            row["text"],
            metadata=row["metadata"] | {"created_at": row["created_at"]},
            id=row["id"],
            title=row["title"],
            tags=tuple(row["tags"]),
            created_at=moment(row["created_at"]),
        )
        for row in rows
    ]


def demo_parts(
    name: str, texts: Sequence[NewDocument]
) -> list[tuple[list[Chunk], Sequence[Dense]]]:
    """The parts of each of its texts, and their vectors."""
    with np.load(VECTORS) as held:
        spans, vectors = held[f"{name} spans"], held[name].astype(float)
    found = []
    for number, text in enumerate(texts):
        own = spans[:, 0] == number
        pieces = [Chunk(text.text[start:end], start, end) for _, start, end in spans[own].tolist()]
        found.append((pieces, vectors[own].tolist()))
    return found
