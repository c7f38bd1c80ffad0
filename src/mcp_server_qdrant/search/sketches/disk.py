"""Sketches on disk. A cache and nothing else: what is lost or damaged is drawn again."""

import json
import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np

from mcp_server_qdrant.core.cachefile import CacheFile, digest
from mcp_server_qdrant.search.sketches.sketch import Sketch
from mcp_server_qdrant.search.words.postings import Postings

FILE, OLD = "sketches-2.sqlite3", "sketches-1.sqlite3"
MOST = 8_192  # sketches of all engines and tenants, of about 15 kB each
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sketches (id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "engine BLOB NOT NULL, key BLOB NOT NULL UNIQUE, model TEXT NOT NULL, points INTEGER NOT NULL, "
    "centres BLOB NOT NULL, scales BLOB NOT NULL, shares BLOB NOT NULL, words TEXT NOT NULL, "
    "groups BLOB NOT NULL, documents INTEGER, terms BLOB, starts BLOB, places BLOB, "
    "weights BLOB, step REAL)"
)


Kept = tuple[Sketch, int]


class SketchCache:
    """The sketches of one engine's collections, in a file below `folder` that engines share.

    Calls block, and none raises.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._file = CacheFile(folder / FILE, SCHEMA)
        self._engine = engine

    def key(self, collection: str) -> bytes:
        """The key of a collection."""
        return digest(self._engine, collection)

    def rows(self) -> dict[bytes, int] | None:
        """Key of a collection -> the row of its sketch; None where the file does not tell."""
        query, engine = "SELECT key, id FROM sketches WHERE engine = ?", (digest(self._engine),)
        return self._file.once(lambda file: dict(file.execute(query, engine).fetchall()))

    def load(self) -> dict[bytes, Kept]:
        """Key of a collection -> its sketch, and the row of it."""
        with suppress(OSError):
            for old in self._folder.glob(f"{OLD}*"):  # of earlier versions
                old.unlink()
        query = (
            "SELECT id, key, model, points, centres, scales, shares, words, groups, documents, "
            "terms, starts, places, weights, step FROM sketches WHERE engine = ?"
        )
        engine = (digest(self._engine),)
        rows = self._file.once(lambda file: file.execute(query, engine).fetchall())
        found = {}
        for row, key, model, points, centres, scales, shares, words, groups, *held in rows or ():
            with suppress(ValueError, TypeError):  # damaged, though the file as such is sound
                parts = np.frombuffer(scales, "<f4").astype(np.float32)
                sketch = Sketch(
                    model,
                    points,
                    np.frombuffer(centres, np.int8).reshape(len(parts), -1),
                    parts,
                    np.frombuffer(shares, "<f4").astype(np.float32),
                    dict(json.loads(words)),
                    np.frombuffer(groups, np.uint8),
                    _postings(*held) if held[0] is not None else None,
                )
                found[key] = sketch, row
        return found

    def save(self, collection: str, sketch: Sketch) -> int:
        """The row in which the sketch is kept, 0 for none; the oldest ones beyond 8,192 go."""
        held = sketch.postings
        row = (
            *(digest(self._engine), self.key(collection), sketch.model, sketch.points),
            sketch.centres.tobytes(),
            sketch.scales.astype("<f4").tobytes(),
            sketch.shares.astype("<f4").tobytes(),
            json.dumps(dict(sketch.words)),
            sketch.groups.tobytes(),
            *(
                (None,) * 6
                if held is None
                else (
                    held.documents,
                    held.terms.astype("<u4").tobytes(),
                    held.starts.astype("<u4").tobytes(),
                    held.places.tobytes(),
                    held.weights.tobytes(),
                    held.step,
                )
            ),
        )

        def write(file: sqlite3.Connection) -> int:
            made = file.execute(
                "INSERT OR REPLACE INTO sketches (engine, key, model, points, centres, scales, "
                "shares, words, groups, documents, terms, starts, places, weights, step) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            file.execute(
                "DELETE FROM sketches WHERE id <= "
                "(SELECT id FROM sketches ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (MOST,),
            )
            return made.lastrowid or 0

        return self._file.once(write) or 0

    def forget(self, collection: str) -> None:
        """Drop the sketch of a collection."""
        row = (self.key(collection),)
        self._file.once(lambda file: file.execute("DELETE FROM sketches WHERE key = ?", row))


def _postings(
    documents: int, terms: bytes, starts: bytes, places: bytes, weights: bytes, step: float
) -> Postings:
    return Postings(
        documents,
        np.frombuffer(terms, "<u4").astype(np.uint32),
        np.frombuffer(starts, "<u4").astype(np.uint32),
        np.frombuffer(places, np.uint8),
        np.frombuffer(weights, np.uint8),
        step,
    )
