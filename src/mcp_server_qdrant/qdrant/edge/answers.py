"""Answers about a whole shard, kept in a small file beside it so that it need not be opened.

Counts, tags and payload indexes of a thousand collections are asked for after every start, and to
open a shard takes some 20 ms. An answer holds until the next write, before which the file is
removed durably. It also holds only while the shard's files are as they were: an older version of
this product, a restored backup or a copy change their times, and what was open in a crash has other
files than before. Then the shard is asked anew.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from mcp_server_qdrant.hosting.wire import sync
from mcp_server_qdrant.qdrant.edge.counts import parts_of

FORMAT = "1"  # another one where the shape of an answer changes
MOST = 32  # of one shard; those beyond were asked with filters of searches
SHARD = ("count", "info")  # what every search needs
LONGEST = 1_000  # characters of a question

_NEVER = frozenset({None})


class Answers:
    """The answers about one shard. `token`: of which collection of that name."""

    def __init__(self, shard: Path, token: str) -> None:
        self._shard, self._token = shard, token
        self.file = shard.with_name(f"{shard.name}.answers")
        self.known: dict[str, Any] = {}  # another dictionary after each write
        self.durable = True  # what they are about is on the disk
        self._kept: frozenset[str] | None = None  # those in the file
        self._parts: frozenset[Any] = _NEVER  # of the closed shard, when it was looked at

    def of_closed(self) -> dict[str, Any]:
        """The answers about a shard that is not open: those in the file where they hold."""
        parts = parts_of(self._shard)
        if parts != self._parts:
            self._parts, self.known = parts, self._read()
            self._kept = frozenset(self.known)
        return self.known

    def opened(self, count: int) -> None:
        """The answers about a shard of so many points hold; its files are others now."""
        self._kept = None
        if self.known.setdefault("count", count) != count:
            self.known = {"count": count}

    def closed(self) -> None:
        """The same for closing it."""
        self._kept, self._parts = None, parts_of(self._shard)

    def forget(self) -> None:
        """Nothing holds any more, also after a crash: it is about to be written to."""
        self.known, self._kept, self.durable = {}, None, False
        with contextlib.suppress(FileNotFoundError):
            self.file.unlink()
            sync(self.file.parent)

    def keep(self) -> None:
        """Write them down, unless they are; where that fails, they serve until the next start."""
        if not self.durable or self._kept == self.known.keys():
            return
        draft = self.file.with_name(f"{self.file.name}.draft")
        with contextlib.suppress(OSError):
            body = json.dumps(self.known)
            with open(draft, "w", encoding="utf-8", opener=_private) as file:
                file.write(f"{self._seal(body)}\n{body}")
            draft.replace(self.file)
            self._kept = frozenset(self.known)

    def _read(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            seal, body = self.file.read_text("utf-8").split("\n", 1)
            if seal == self._seal(body):
                return dict(json.loads(body))
        return {}

    def _seal(self, body: str) -> str:
        """A digest of the answers, and of the state of the shard's files that they are about."""
        least = self._shard.with_name(f"{self._shard.name}.count").read_bytes()
        state = FORMAT, self._token, least, list(_states(self._shard)), body
        return sha256(repr(state).encode()).hexdigest()


def remember(known: dict[str, Any], question: str, answer: Any) -> None:
    """Add an answer, or tell that it was used; of too many the one used longest ago goes."""
    if len(question) > LONGEST:
        return
    known.pop(question, None)
    if len(known) >= MOST:
        del known[next(other for other in known if other not in SHARD)]
    known[question] = answer


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _states(shard: Path) -> Iterator[tuple[str, int, int, int]]:
    """Name, size and times of what every opening and every flush of the engine writes anew.

    Of what is deeper only that it is there: of a hundred files each would cost a read from a disk.
    """
    for folder in (shard, shard / "wal", *sorted((shard / "segments").iterdir())):
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                found = entry.stat(follow_symlinks=False)
                yield entry.name, found.st_size, found.st_mtime_ns, found.st_ctime_ns
