"""Vocabularies on disk. A cache and nothing else: what is lost or damaged is sampled again."""

import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np

from mcp_server_qdrant.core.cachefile import CacheFile, digest
from mcp_server_qdrant.search.words.vocabulary import Vocabulary

FILE = "words-1.sqlite3"
MOST = 256  # vocabularies, of 0.7 MB at most where their words are of usual length
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS vocabularies (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, "
    "points INTEGER NOT NULL, words TEXT NOT NULL, counts BLOB NOT NULL)"
)


class WordCache:
    """The vocabularies of one engine's collections, in a file below `folder` that engines share.

    Calls block, and none raises. The file is open during a call only: calls are rare, and every
    tenant has a cache of its own.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._file = CacheFile(folder / FILE, SCHEMA)
        self._engine = engine

    def key(self, collection: str) -> bytes:
        """The key of a collection; it does not give the name away."""
        return digest(self._engine, collection)

    def load(self, collection: str) -> tuple[Vocabulary, int] | None:
        """The vocabulary and how many points the collection had; None where there is none."""
        query = "SELECT points, words, counts FROM vocabularies WHERE key = ?"
        row = self._file.once(lambda file: file.execute(query, (self.key(collection),)).fetchone())
        if row is None:
            return None
        points, words, counts = row
        with suppress(ValueError, TypeError):  # damaged, though the file as such is sound
            frequencies = np.frombuffer(counts, "<i4").astype(np.int32)
            return Vocabulary.read(words, frequencies), int(points)
        return None

    def save(self, collection: str, vocabulary: Vocabulary, points: int) -> None:
        """Keep the vocabulary; the oldest ones beyond 256 go."""
        counts = vocabulary.counts.astype("<i4").tobytes()
        row = self.key(collection), points, vocabulary.text, counts

        def write(file: sqlite3.Connection) -> None:
            file.execute(
                "INSERT OR REPLACE INTO vocabularies (key, points, words, counts) "
                "VALUES (?, ?, ?, ?)",
                row,
            )
            file.execute(
                "DELETE FROM vocabularies WHERE id NOT IN "
                "(SELECT id FROM vocabularies ORDER BY id DESC LIMIT ?)",
                (MOST,),
            )

        self._file.once(write)
        with suppress(OSError):
            for old in self._folder.glob("*.words"):  # the files of earlier versions
                old.unlink()
