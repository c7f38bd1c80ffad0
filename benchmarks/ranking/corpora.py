"""BEIR folders in collections of the embedded engine; their vectors are kept on disk."""

import argparse
import csv
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

from opened import opened

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.notation import point_id
from mcp_server_qdrant.core.writes import TITLE_FACTOR, Encoded
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.ingest.encoding import day_of, encoded_text


@dataclass(frozen=True)
class Corpus:
    """One test collection: documents (title, text) with their metadata, queries, judgements."""

    name: str
    documents: dict[str, tuple[str, str]]
    metadata: dict[str, dict[str, Any]]
    queries: dict[str, str]
    judgements: dict[str, dict[str, int]]


def read(folder: Path) -> Corpus:
    """A BEIR folder: corpus.jsonl, queries.jsonl, qrels.tsv; unjudged queries are left out."""
    lines = (folder / "corpus.jsonl").read_text("utf-8").splitlines()
    texts = {row["_id"]: row for row in map(json.loads, lines)}
    documents = {key: (row.get("title", ""), row["text"]) for key, row in texts.items()}
    metadata = {key: row.get("metadata") or {} for key, row in texts.items()}
    judgements: dict[str, dict[str, int]] = {}
    with (folder / "qrels.tsv").open(newline="") as judged:
        rows = csv.reader(judged, delimiter="\t")
        next(rows)
        for query, document, grade in rows:
            if int(grade) > 0 and document in documents:
                judgements.setdefault(query, {})[document] = int(grade)
    queries = {
        row["_id"]: row["text"]
        for row in map(json.loads, (folder / "queries.jsonl").read_text("utf-8").splitlines())
        if row["_id"] in judgements
    }
    return Corpus(folder.name, documents, metadata, queries, judgements)


def asked(about: str | None, **numbers: int) -> tuple[argparse.Namespace, list[Corpus]]:
    """Arguments of a measurement, with these numbers, and the collections of its folder."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path("build/bench/ranking"))
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    arguments.model = arguments.model.resolve()  # settings take no relative path
    return arguments, [read(one) for one in sorted(arguments.data.iterdir()) if one.is_dir()]


def encoded(title: str, text: str) -> str:
    """What the encoders read of a document: as the server's own write path makes it."""
    return f"{title[:120]}\n{text}" if title else text


async def vectors(corpus: Corpus, encoder: Encoder, cache: Path) -> np.ndarray:
    """The documents' dense vectors, (documents, size), in the corpus's order."""
    texts = [encoded(title, text) for title, text in corpus.documents.values()]
    digest = hashlib.sha256("\x00".join([encoder.name, *texts]).encode()).hexdigest()[:16]
    path = cache / f"{corpus.name}-{digest}.npy"
    if path.exists():
        return np.load(path)
    rows = []
    for first in range(0, len(texts), 512):
        rows += await encoder.encode_documents(texts[first : first + 512])
        print(f"{corpus.name}: {len(rows)}/{len(texts)} encoded", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    made = np.asarray(rows, dtype=np.float32)
    np.save(path, made)
    return made


@asynccontextmanager
async def filled(
    arguments: argparse.Namespace, corpora: Sequence[Corpus], merged: str | None = None
) -> AsyncIterator[Services]:
    """Services on an embedded engine with a collection per corpus, and one `merged` of all."""
    async with opened(arguments.model) as services:
        for corpus in corpora:
            rows = await vectors(corpus, services.encoders.default, arguments.cache)
            for name in filter(None, (corpus.name, merged)):
                await fill(services, corpus, name, rows)
        yield services


async def fill(services: Services, corpus: Corpus, into: str, rows: np.ndarray) -> None:
    """Write a corpus as whole documents (chunking off)."""
    points, bm25 = services.store.points, services.store.bm25
    await points.create(into, await services.store.blueprint(into))
    services.catalog.forget(into)
    target = await services.catalog.target(into)
    batch = []
    for (document, (title, text)), row in zip(corpus.documents.items(), rows, strict=True):
        key = f"{corpus.name}/{document}"
        metadata = corpus.metadata[document]
        point = point_id(into, key, 0)
        whole = Document(point, into, text, title=title or None, metadata=metadata, document=key)
        sparse = bm25.encode_document(encoded_text(whole, TITLE_FACTOR), day_of(whole))
        batch.append(Encoded(whole, row.tolist(), sparse))
    for first in range(0, len(batch), 200):
        await points.upsert(target, batch[first : first + 200])
    services.catalog.forget(into)
