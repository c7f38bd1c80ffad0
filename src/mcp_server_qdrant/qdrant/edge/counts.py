"""The least number of points that each collection of a space holds, remembered in a small file.

The engine opens a shard that lost a part of its files without a word. So the numbers are written
after each write, and forgotten before points are deleted: whenever the process is killed, a sound
shard holds as many. Where there are no numbers, or torn ones, nothing is known.
"""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from mcp_server_qdrant.core.disk import sync

INCOMPLETE = "Some of its points are missing on the disk; who runs this server can restore them."


class Census:
    """The points of a space's collections, by id, against the numbers that they should have.

    `here` are those that are there, `missing` those that were lost; absent ids have none.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = False  # the file has numbers
        self.here: dict[str, int] = {}
        self.missing: dict[str, int] = {}

    def opened(self, here: Mapping[str, int]) -> None:
        """Compare the points of a shard just opened to the numbers remembered."""
        remembered = self.remembered()
        self._known = bool(remembered)
        self.here = dict(here)
        self.missing = {
            one: number - here.get(one, 0)
            for one, number in remembered.items()
            if number > here.get(one, 0)
        }
        if not remembered:
            self.write()

    def changed(self, collection: str, more: int) -> None:
        """So many points more, or fewer. Points that come back make up for missing ones."""
        self.here[collection] = self.here.get(collection, 0) + more
        if more > 0 and collection in self.missing:
            self.lose(collection, self.missing[collection] - more)

    def lose(self, collection: str, missing: int) -> None:
        """So many points of it are missing."""
        self.missing.pop(collection, None)
        if missing > 0:
            self.missing[collection] = missing

    def without(self, collection: str) -> None:
        """The collection has no points any more, nor should it."""
        self.here.pop(collection, None)
        self.missing.pop(collection, None)

    def forget(self) -> None:
        """Durably, before points are deleted: after a crash nothing is known."""
        if self._known:
            self._known = False
            self._file.unlink(missing_ok=True)
            sync(self._file.parent)

    def write(self) -> None:
        """Remember the numbers: what is durable now, and what is missing."""
        lost = self.missing
        numbers = {
            one: n + lost.get(one, 0) for one, n in {**dict.fromkeys(lost, 0), **self.here}.items()
        }
        try:
            self._file.write_text(json.dumps(numbers), "utf-8")
            self._known = True
        except OSError:  # better nothing than numbers that are too high
            self._known = False
            with contextlib.suppress(OSError):
                self._file.unlink()

    def damage(self, collection: str, name: str) -> str | None:
        """The loss in a sentence, and what to do about it."""
        lost = self.missing.get(collection, 0)
        if not lost:
            return None
        verb = "is" if lost == 1 else "are"
        return (
            f"{lost:,} of its {self.here.get(collection, 0) + lost:,} points {verb} missing on the"
            " disk. Restore a backup or store the texts again; to go on without them, run"
            f" mcp-server-qdrant accept-loss {name!r}."
        )

    def remembered(self) -> dict[str, int]:
        """The numbers in the file; none where it is missing or torn."""
        try:
            numbers = json.loads(self._file.read_text("utf-8"))
            return {str(one): int(number) for one, number in numbers.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
