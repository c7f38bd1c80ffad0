"""The demo's texts, with precomputed vectors of the default model, which is not loaded."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np

from mcp_server_qdrant.core.datatypes import Dense, NewDocument
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import parse_time
from mcp_server_qdrant.ingest.encoding import encoded_text
from mcp_server_qdrant.ingest.parts import Span
from mcp_server_qdrant.ingest.store import Store
from mcp_server_qdrant.ingest.writer import Job

TEXTS = Path(__file__).parent / "demo_data"
NAMES = ("homelab", "meetings", "recipes")
VECTORS = TEXTS / "vectors.npz"  # made by scripts/demo_vectors.py
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


async def store_demo(store: Store, name: str) -> int:
    """Store the missing texts of a demo collection; returns the number of all its texts.

    With another model the texts are encoded. Raises RequestError for an unknown name.
    """
    if name not in NAMES:
        raise RequestError(f"The demo's collections are {', '.join(NAMES)}.")
    await store.ensure(name, create=True)
    target = await store.writable(name)
    texts, jobs, known = demo_texts(name), list[Job](), dict[str, Dense]()
    for text, (spans, vectors) in zip(texts, demo_parts(name, texts), strict=True):
        jobs.append(Job(parts=store.parts(text, name, str(text.id), None, spans)))
        known |= zip(map(encoded_text, jobs[-1].parts), vectors, strict=True)

    async def given(some: Sequence[str]) -> Sequence[Dense]:
        return [known[text] for text in some]

    async def new() -> AsyncIterator[Job]:
        stored = await store.points.by_id(name, [job.parts[0].id for job in jobs])
        there = {one.id for one in stored}
        for job in jobs:
            if job.parts[0].id not in there:
                yield job

    model = target.dense.model if target.dense else None
    encode = given if model == MODEL else store.encoders.start_encoder(model).encode_documents
    writer = store.writer(target, encode if target.dense else None)
    await writer.run(new())
    if writer.pending:
        store.pending()
    store.catalog.forget(name)
    return len(texts)


def demo_texts(name: str) -> list[NewDocument]:
    """The texts of a demo collection."""
    rows = map(json.loads, (TEXTS / f"{name}.jsonl").read_text("utf-8").splitlines())
    return [
        NewDocument(
            row["text"],
            metadata=row["metadata"] | {"created_at": row["created_at"]},
            id=row["id"],
            title=row["title"],
            tags=tuple(row["tags"]),
            created_at=parse_time(row["created_at"]),
        )
        for row in rows
    ]


def demo_parts(name: str, texts: Sequence[NewDocument]) -> list[tuple[list[Span], Sequence[Dense]]]:
    """For each text, the spans of its parts and their vectors."""
    with np.load(VECTORS) as held:
        spans, vectors = held[f"{name} spans"], held[name].astype(float)
    rows = [spans[:, 0] == number for number in range(len(texts))]
    return [([(a, b) for _, a, b in spans[own].tolist()], vectors[own].tolist()) for own in rows]
