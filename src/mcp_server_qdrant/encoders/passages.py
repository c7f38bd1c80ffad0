"""The vectors of passages on disk, so that a text that was encoded once need not be again.

A cache and nothing else: it may be deleted at any time, and a fault of it costs time only. No text
is in it: a key is a hash of the model's identity and the text.
"""

import asyncio
import sqlite3
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from mcp_server_qdrant.core.cachefile import CacheFile, digest

FILE = "passages-1.sqlite3"
PART = 500  # keys per query, below SQLite's limit of parameters
EVICTED = 8  # a full cache loses the eighth that was not used for longest
FRESH = 86_400.0  # seconds in which the time of last use is not written again
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS passages (id INTEGER PRIMARY KEY, "
    "key BLOB NOT NULL UNIQUE, used INTEGER NOT NULL, vector BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS by_use ON passages (used)",
)

T = TypeVar("T")


class PassageCache:
    """At most `megabytes` of vectors below `folder`, the longest unused ones dropped.

    Shared by any number of processes. Everything happens in a thread of its own.
    """

    def __init__(
        self, folder: Path, megabytes: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._file = CacheFile(folder / FILE, *SCHEMA)
        self._limit = megabytes * 1_000_000
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "passage-cache")

    async def get(self, space: str, texts: Sequence[str]) -> list[list[float] | None]:
        """The vector of each text in the space of one model, None where it is not known."""
        keys = [digest(space, text) for text in texts]
        known = await self._run(lambda file: self._read(file, keys)) or {}
        return [known.get(each) for each in keys]

    async def put(self, space: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep the vectors of these texts; values are rounded to float32."""
        rows = [(digest(space, t), array("f", vector).tobytes()) for t, vector in vectors.items()]
        await self._run(lambda file: self._write(file, rows))

    async def close(self) -> None:
        """Let the file go."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._file.run, work)

    def _read(self, file: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, list[float]]:
        found: dict[bytes, list[float]] = {}
        now = int(self._clock())
        stale = []
        for part in _parts(keys):
            marks = ",".join("?" * len(part))
            query = f"SELECT key, vector, used FROM passages WHERE key IN ({marks})"  # noqa: S608
            for name, vector, used in file.execute(query, part):
                found[name] = array("f", vector).tolist()
                if used < now - FRESH:
                    stale.append((now, name))
        if stale:
            with suppress(sqlite3.OperationalError):  # another process is writing: next time
                file.executemany("UPDATE passages SET used = ? WHERE key = ?", stale)
        return found

    def _write(self, file: sqlite3.Connection, rows: Sequence[tuple[bytes, bytes]]) -> None:
        now = int(self._clock())
        for part in _parts(rows):  # one transaction each: a large one makes a large journal
            file.executemany(
                "INSERT OR REPLACE INTO passages (key, used, vector) VALUES (?, ?, ?)",
                [(name, now, vector) for name, vector in part],
            )
            while _bytes(file) > self._limit and _evict(file):
                pass
            file.commit()
            file.execute("PRAGMA incremental_vacuum").fetchall()


def _parts(whole: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(whole), PART):
        yield whole[first : first + PART]


def _evict(file: sqlite3.Connection) -> int:
    """Drop the vectors that were not used for longest; returns how many."""
    (count,) = file.execute("SELECT count(*) FROM passages").fetchone()
    return file.execute(
        "DELETE FROM passages WHERE id IN (SELECT id FROM passages ORDER BY used, id LIMIT ?)",
        (-(-count // EVICTED),),
    ).rowcount


def _bytes(file: sqlite3.Connection) -> int:
    pages, free, size = (
        file.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
