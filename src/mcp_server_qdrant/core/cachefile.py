"""A cache in one SQLite file, shared by any number of processes and lost without harm."""

import hashlib
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

BUSY_SECONDS = 2.0
PAGE_BYTES = 16_384  # vectors of up to 1536 dimensions share pages
WAL_PAGES = 256

_PASSING = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
    *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM),
}

# A damaged file may stand in the error's text, which Python then cannot read.
_FAULTS = (sqlite3.DatabaseError, UnicodeDecodeError)

logger = logging.getLogger(__name__)

T = TypeVar("T")


def _passing(error: Exception) -> bool:
    """Whether the file may be sound: it is busy, or the disk is in the way."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return isinstance(error, OSError) or code & 0xFF in _PASSING


def digest(*parts: str) -> bytes:
    """The key of a row; it does not give the names away that it is made of."""
    name = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, digest_size=20).digest()


class CacheFile:
    """The file at `path`, readable by its owner alone, with the tables of `schema`.

    It is opened by the first `run`. Calls block, one at a time.
    """

    def __init__(self, path: Path, *schema: str) -> None:
        self._path = path
        self._schema = schema
        self._file: sqlite3.Connection | None = None

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do the work in a transaction, or nothing where the file cannot serve; never raises.

        Another process may hold the file, the disk may be full. A damaged file is replaced.
        """
        try:
            if self._file is None:
                self._file = self._open()
            with self._file:
                return work(self._file)
        except (*_FAULTS, OSError) as error:
            if _passing(error):
                logger.info("The cache %s is left out: %s", self._path.name, type(error).__name__)
            else:
                logger.warning("The cache %s is damaged and starts empty.", self._path.name)
                self._remove()
        return None

    def once(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The same with a connection of its own, open meanwhile only: for rare calls."""
        file = CacheFile(self._path, *self._schema)
        try:
            return file.run(work)
        finally:
            file.close()

    def close(self) -> None:
        """Let the file go; the next `run` opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _remove(self) -> None:
        self.close()
        for end in ("", "-wal", "-shm"):
            with suppress(OSError):
                self._path.with_name(f"{self._path.name}{end}").unlink()

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        file = sqlite3.connect(self._path, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            file.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            file.execute("PRAGMA auto_vacuum = INCREMENTAL")
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("PRAGMA synchronous = OFF")
            file.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
            file.execute(f"PRAGMA journal_size_limit = {WAL_PAGES * PAGE_BYTES}")
            with file:
                for statement in self._schema:
                    file.execute(statement)
        except _FAULTS:
            file.close()
            raise
        return file
