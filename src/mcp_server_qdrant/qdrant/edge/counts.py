"""The least number of points that a shard holds, remembered in a small file among its own.

The engine opens a shard that lost a part of its files without a word. So the number is written
after each write, and forgotten before points are deleted: whenever the process is killed, a sound
shard holds as many. Where there is no number, or a torn one, nothing is known.
"""

import contextlib
import re
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.disk import sync

INCOMPLETE = "Some of its points are missing on the disk; who runs this server can restore them."
_LINE = re.compile(r"(\d{20})( .*)?")  # versions before wrote a word behind it


class Census:
    """The points of one shard against the number that it should have.

    `engine` is the open shard throughout, `missing` how many points it lost.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._written: int | None = None
        self._twice = 0  # after a crash the engine's own count has some points twice
        self._here = 0
        self.missing = 0

    def opened(self, engine: Any, exact: int) -> None:
        """Compare the points of a shard just opened to the number remembered."""
        self._twice = engine.info().points_count - exact
        self._written = self.remembered()
        self._here, self.missing = exact, max(0, (self._written or 0) - exact)
        self._write()

    def kept(self, engine: Any) -> None:
        """Remember what is durable now. Points that come back make up for missing ones."""
        # An exact count would take 8 ms of 100,000 points.
        here = int(engine.info().points_count) - self._twice
        self.missing = max(0, self.missing - max(0, here - self._here))
        self._here = here
        self._write()

    def forget(self) -> None:
        """Durably, before points are deleted: after a crash nothing is known."""
        if self._written is not None:
            self._written = None
            self._file.unlink(missing_ok=True)
            sync(self._file.parent)

    def accept(self) -> int:
        """Go on without the missing points; returns their number."""
        lost, self.missing = self.missing, 0
        self._write()
        return lost

    def damage(self, name: str) -> str | None:
        """The loss in a sentence, and what to do about it."""
        if not self.missing:
            return None
        verb = "is" if self.missing == 1 else "are"
        return (
            f"{self.missing:,} of its {self._here + self.missing:,} points {verb} missing on the"
            " disk. Restore a backup or store the texts again; to go on without them, run"
            f" mcp-server-qdrant accept-loss {name!r}."
        )

    def remembered(self) -> int | None:
        """The number in the file."""
        try:
            line = _LINE.fullmatch(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return int(line[1]) if line else None

    def _write(self) -> None:
        number = self._here + self.missing
        if number != self._written:
            try:
                self._file.write_text(f"{number:020d}", "utf-8")
                self._written = number
            except OSError:  # better nothing than a number that is too high
                self._written = None
                with contextlib.suppress(OSError):
                    self._file.unlink()
