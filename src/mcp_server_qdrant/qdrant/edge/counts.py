"""The least number of points that a shard holds, remembered in a small file beside it.

The engine opens a shard that lost a part of its files without a word. So the number is raised after
each flush and lowered before points are deleted: whenever the process is killed, a sound shard
holds as many. The file is one short line, overwritten in place, which no crash tears; where there
is none, or it is of another shard of that name, nothing is known.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

INCOMPLETE = "Some of its points are missing on the disk; who runs this server can restore them."

_sync = getattr(os, "fdatasync", os.fsync)


class Census:
    """The points of one shard against the number that it should have.

    `engine` is the open shard throughout, `missing` how many points it lost.
    """

    def __init__(self, file: Path, token: str) -> None:
        self._file, self._token = file, token
        self._least = 0  # so many points a sound shard has
        self._written: int | None = None
        self._twice = 0  # after a crash the engine's own count has some points twice
        self.missing = 0

    def opened(self, engine: Any, exact: int) -> None:
        """Compare the points of a shard just opened to the number remembered."""
        self._twice = engine.info().points_count - exact
        self._written = self.remembered()
        self._least = self._written or 0
        self.flushed(engine)

    def flushed(self, engine: Any) -> None:
        """Remember what is durable now. Points that come back make up for missing ones."""
        here = self._here(engine)
        self.missing = max(0, self._least - here)
        self._least = max(self._least, here)
        self._write(self._least)

    @contextlib.contextmanager
    def deleting(self, engine: Any) -> Iterator[None]:
        """Around a deletion: what may go is forgotten durably before it goes."""
        before = self._here(engine)
        self._lower(max(0, self._least - before))
        yield
        self._least -= before - self._here(engine)

    def accept(self, engine: Any) -> int:
        """Go on without the missing points; returns their number."""
        lost, self.missing, self._least = self.missing, 0, self._here(engine)
        self._lower(self._least)
        return lost

    def damage(self, name: str) -> str | None:
        """The loss in a sentence, and what to do about it."""
        if not self.missing:
            return None
        verb = "is" if self.missing == 1 else "are"
        return (
            f"{self.missing:,} of its {self._least:,} points {verb} missing on the disk. Restore a"
            " backup or store the texts again; to go on without them, run"
            f" mcp-server-qdrant accept-loss {name!r}."
        )

    def remembered(self) -> int | None:
        """The number in the file."""
        try:
            points, token = self._file.read_text("utf-8").split(" ")
            return int(points) if token == self._token else None
        except (OSError, ValueError):
            return None

    def _here(self, engine: Any) -> int:
        """The points that it has, or fewer. An exact count would take 8 ms of 100,000."""
        return int(engine.info().points_count) - self._twice

    def _lower(self, points: int) -> None:
        if self._written is not None and self._written > points:
            self._write(points, durable=True)

    def _write(self, points: int, *, durable: bool = False) -> None:
        if points == self._written:
            return
        begun = os.O_CREAT | os.O_TRUNC if self._written is None else 0
        try:
            handle = os.open(self._file, os.O_WRONLY | begun, 0o600)
            try:
                os.write(handle, f"{points:020d} {self._token}".encode())
                if durable:
                    _sync(handle)
            finally:
                os.close(handle)
            self._written = points
        except OSError:  # better nothing than a number that is too high
            self._written = None
            with contextlib.suppress(OSError):
                self._file.unlink()
