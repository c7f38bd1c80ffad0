"""Folders written by qdrant-client's local mode."""

import hashlib
import pickle
import sqlite3
from pathlib import Path
from typing import Any

from qdrant_client import AsyncQdrantClient, models

from tests.support import SIZE, corpus, dense, foreign

VECTOR = "fast-bag-of-words"
TEXTS = corpus(40)


async def leave(
    folder: Path, *names: str, texts: Any = TEXTS, vector: str = VECTOR, size: int = SIZE
) -> None:
    """Write a folder like the official server 0.8.1: one dense vector, `document`, `metadata`."""
    client = AsyncQdrantClient(path=str(folder))
    for name in names or ("notes",):
        await foreign(
            client,
            name,
            {n: {"document": text, "metadata": {"n": n}} for n, text in enumerate(texts, 1)},
            vectors={vector: models.VectorParams(size=size, distance=models.Distance.COSINE)},
            values=lambda n: {vector: dense(texts[n - 1], size)},
        )
    await client.close()


async def stored(folder: Path, name: str = "notes") -> dict[Any, models.Record]:
    """The points that qdrant-client itself reads there."""
    client = AsyncQdrantClient(path=str(folder))
    records, _ = await client.scroll(name, limit=10_000, with_payload=True, with_vectors=True)
    await client.close()
    return {record.id: record for record in records}


def rows(folder: Path, name: str = "notes") -> sqlite3.Connection:
    """The collection's SQLite file, to damage it; `with` commits."""
    return sqlite3.connect(folder / "collection" / name / "storage.sqlite")


def replace(folder: Path, number: int, row: bytes, name: str = "notes") -> None:
    """Replace the bytes of row `number`, counted from 1."""
    connection = rows(folder, name)
    with connection:
        connection.execute("UPDATE points SET point = ? WHERE rowid = ?", (row, number))
    connection.close()


def row(folder: Path, number: int, name: str = "notes") -> bytes:
    """The bytes of a row."""
    connection = rows(folder, name)
    (found,) = connection.execute("SELECT point FROM points WHERE rowid = ?", (number,)).fetchone()
    connection.close()
    return bytes(found)


def files(folder: Path) -> dict[str, str]:
    """The hash of every file in the folder."""
    kept = [folder / "meta.json", *(folder / "collection").rglob("*")]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in kept
        if path.is_file()
    }


def pickled(point: Any) -> bytes:
    return pickle.dumps(point)
