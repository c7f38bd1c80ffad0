"""Sketches on disk. A cache and nothing else: what is lost or damaged is drawn again."""

import json
import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np

from mcp_server_qdrant.core.cachefile import CacheFile, digest
from mcp_server_qdrant.search.sketches.sketch import Sketch

FILE = "sketches-1.sqlite3"
MOST = 8_192  # sketches of all engines and tenants, of about 7 kB each
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sketches (id INTEGER PRIMARY KEY, engine BLOB NOT NULL, "
    "key BLOB NOT NULL UNIQUE, model TEXT NOT NULL, points INTEGER NOT NULL, "
    "centres BLOB NOT NULL, shares BLOB NOT NULL, words TEXT NOT NULL)"
)


class SketchCache:
    """The sketches of one engine's collections, in a file below `folder` that engines share.

    Calls block, and none raises.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._file = CacheFile(folder / FILE, SCHEMA)
        self._engine = engine

    def key(self, collection: str) -> bytes:
        """The key of a collection."""
        return digest(self._engine, collection)

    def load(self) -> dict[bytes, Sketch]:
        """Key of a collection -> its sketch."""
        query = "SELECT key, model, points, centres, shares, words FROM sketches WHERE engine = ?"
        engine = (digest(self._engine),)
        rows = self._file.once(lambda file: file.execute(query, engine).fetchall())
        found = {}
        for key, model, points, centres, shares, words in rows or ():
            with suppress(ValueError, TypeError):  # damaged, though the file as such is sound
                parts = np.frombuffer(shares, "<f4").astype(np.float32)
                rows_of = np.frombuffer(centres, "<f2").astype(np.float16)
                means = rows_of.reshape(len(parts), -1)
                found[key] = Sketch(model, points, means, parts, dict(json.loads(words)))
        return found

    def save(self, collection: str, sketch: Sketch) -> None:
        """Keep the sketch; the oldest ones beyond 8,192 go."""
        row = (
            *(digest(self._engine), self.key(collection), sketch.model, sketch.points),
            sketch.centres.astype("<f2").tobytes(),
            sketch.shares.astype("<f4").tobytes(),
            json.dumps(dict(sketch.words)),
        )

        def write(file: sqlite3.Connection) -> None:
            file.execute(
                "INSERT OR REPLACE INTO sketches (engine, key, model, points, centres, shares, "
                "words) VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            file.execute(
                "DELETE FROM sketches WHERE id <= (SELECT MAX(id) FROM sketches) - ?", (MOST,)
            )

        self._file.once(write)

    def forget(self, collection: str) -> None:
        """Drop the sketch of a collection."""
        row = (self.key(collection),)
        self._file.once(lambda file: file.execute("DELETE FROM sketches WHERE key = ?", row))
