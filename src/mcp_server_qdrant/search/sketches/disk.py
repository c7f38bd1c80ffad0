"""Sketches on disk. A cache and nothing else: what is lost or damaged is drawn again."""

import hashlib
import json
import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np

from mcp_server_qdrant.core.cachefile import CacheFile, digest
from mcp_server_qdrant.search.sketches.sketch import Sketch
from mcp_server_qdrant.search.words.postings import Postings

FILE, OLD = "sketches-3.sqlite3", "sketches-[12].sqlite3"
MOST = 8_192  # sketches of all engines and tenants, of some 15 to 30 kB each
SCHEMA = (
    # Without a sketch a row says that the collection was written to.
    "CREATE TABLE IF NOT EXISTS sketches (id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "engine BLOB NOT NULL, key BLOB NOT NULL UNIQUE, sum BLOB, sketch BLOB)",
    "CREATE INDEX IF NOT EXISTS engines ON sketches (engine, key)",
)

Kept = tuple[Sketch, int]


class SketchCache:
    """The sketches of one engine's collections, in a file below `folder` that engines share.

    A row is never changed: a new one, with a larger number, takes its place. Calls block, and none
    raises.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._file = CacheFile(folder / FILE, *SCHEMA)
        self._engine = engine

    def key(self, collection: str) -> bytes:
        """The key of a collection."""
        return digest(self._engine, collection)

    def rows(self) -> dict[bytes, int] | None:
        """Key of a collection -> its row; None where the file does not tell."""
        query, engine = "SELECT key, id FROM sketches WHERE engine = ?", (digest(self._engine),)
        return self._file.once(lambda file: dict(file.execute(query, engine).fetchall()))

    def load(self, after: int = 0) -> dict[bytes, Kept]:
        """Key of a collection -> its sketch, and the row of it, of the rows after that one."""
        with suppress(OSError):
            for old in self._folder.glob(f"{OLD}*"):  # of earlier versions
                old.unlink()
        query = "SELECT id, key, sum, sketch FROM sketches WHERE engine = ? AND id > ?"
        asked = digest(self._engine), after
        rows = self._file.once(lambda file: file.execute(query, asked).fetchall())
        return {
            key: (_unpacked(sketch), row)
            for row, key, told, sketch in rows or ()
            if sketch is not None and told == _sum(sketch)
        }

    def row(self, collection: str) -> int:
        """The row of a collection, 0 for none."""
        query, key = "SELECT id FROM sketches WHERE key = ?", (self.key(collection),)
        found = self._file.once(lambda file: file.execute(query, key).fetchone())
        return found[0] if found else 0

    def save(self, collection: str, sketch: Sketch, before: int) -> int | None:
        """The row in which the sketch is kept; the oldest ones beyond 8,192 go.

        0 where another row than `before` is there: somebody wrote meanwhile. None where the file
        cannot serve.
        """
        key, packed = self.key(collection), _packed(sketch)

        def write(file: sqlite3.Connection) -> int:
            file.execute("BEGIN IMMEDIATE")
            there = file.execute("SELECT id FROM sketches WHERE key = ?", (key,)).fetchone()
            return self._put(file, key, packed) if (there or (0,)) == (before,) else 0

        return self._file.once(write)

    def forget(self, collection: str) -> None:
        """Say that the collection was written to."""
        key = self.key(collection)
        self._file.once(lambda file: self._put(file, key, None))

    def _put(self, file: sqlite3.Connection, key: bytes, packed: bytes | None) -> int:
        made = file.execute(
            "INSERT OR REPLACE INTO sketches (engine, key, sum, sketch) VALUES (?, ?, ?, ?)",
            (digest(self._engine), key, packed and _sum(packed), packed),
        )
        file.execute(
            "DELETE FROM sketches WHERE id <= "
            "(SELECT id FROM sketches ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (MOST,),
        )
        return made.lastrowid or 0


def _sum(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=16).digest()


def _packed(sketch: Sketch) -> bytes:
    """A line of JSON, and the arrays one after the other; those of four bytes a number first."""
    held = sketch.postings
    arrays = [
        *(sketch.scales, sketch.shares),
        *((held.terms, held.starts, held.places, held.weights) if held else ()),
        *(sketch.centres, sketch.groups),
    ]
    head = {
        "model": sketch.model,
        "points": sketch.points,
        "words": dict(sketch.words),
        "held": held and (held.documents, held.step),
        "arrays": [(array.dtype.str, array.shape) for array in arrays],
    }
    return b"\n".join([json.dumps(head).encode(), b"".join(map(np.ndarray.tobytes, arrays))])


def _unpacked(packed: bytes) -> Sketch:
    line, _, body = packed.partition(b"\n")
    head, start, arrays = json.loads(line), 0, []
    for kind, shape in head["arrays"]:
        count = int(np.prod(shape))
        arrays.append(np.frombuffer(body, kind, count, start).reshape(shape))
        start += arrays[-1].nbytes
    scales, shares, *postings, centres, groups = arrays
    held = None
    if head["held"]:
        documents, step = head["held"]
        terms, starts, places, weights = postings
        held = Postings(documents, terms, starts, places, weights, step)
    return Sketch(
        head["model"], head["points"], centres, scales, shares, head["words"], groups, held
    )
