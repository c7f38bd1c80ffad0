"""The minimum number of points of each collection of a space, saved in a small file.

The engine silently opens a shard that lost a part of its files. So the counts are saved after each
write and deleted before points are: at whatever moment the process is killed, an intact shard
holds at least as many. Without a valid file nothing is known.
"""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from mcp_server_qdrant.core.disk import sync_folder

INCOMPLETE = "Some of its points are missing on disk; the operator of this server can restore them."


class Census:
    """The point counts of a space's collections, by collection id, against the saved counts.

    `here` counts the points present, `missing` the points lost; an absent id means 0.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._has_file = False  # the file has counts
        self.present: dict[str, int] = {}
        self.missing: dict[str, int] = {}

    def check(self, here: Mapping[str, int]) -> None:
        """Compare the counts of a shard just opened with the saved ones."""
        saved = self.read_saved()
        self._has_file = bool(saved)
        self.present = dict(here)
        self.missing = {
            one: number - here.get(one, 0)
            for one, number in saved.items()
            if number > here.get(one, 0)
        }
        if not saved:
            self.write()

    def add(self, collection: str, more: int) -> None:
        """Add `more` points (negative: fewer). Points stored again make up for missing ones."""
        self.present[collection] = self.present.get(collection, 0) + more
        if more > 0 and collection in self.missing:
            self.set_missing(collection, self.missing[collection] - more)

    def set_missing(self, collection: str, missing: int) -> None:
        """Set how many of its points are missing."""
        self.missing.pop(collection, None)
        if missing > 0:
            self.missing[collection] = missing

    def remove(self, collection: str) -> None:
        """Forget a collection whose points were all removed."""
        self.present.pop(collection, None)
        self.missing.pop(collection, None)

    def forget(self) -> None:
        """Durably delete the file, before points are deleted."""
        if self._has_file:
            self._has_file = False
            self._file.unlink(missing_ok=True)
            sync_folder(self._file.parent)

    def write(self) -> None:
        """Save the counts of durable points plus missing ones."""
        lost = self.missing
        numbers = {
            one: n + lost.get(one, 0)
            for one, n in {**dict.fromkeys(lost, 0), **self.present}.items()
        }
        try:
            self._file.write_text(json.dumps(numbers), "utf-8")
            self._has_file = True
        except OSError:  # no counts are better than counts that are too high
            self._has_file = False
            with contextlib.suppress(OSError):
                self._file.unlink()

    def damage(self, collection: str, name: str) -> str | None:
        """A sentence on the missing points and the remedy; None if none are missing."""
        lost = self.missing.get(collection, 0)
        if not lost:
            return None
        verb, total = "is" if lost == 1 else "are", self.present.get(collection, 0) + lost
        return (
            f"{lost:,} of its {total:,} points {verb} missing on the disk. Restore a backup"
            " or store the texts again; to go on without them, run"
            f" mcp-server-qdrant accept-loss {name!r}."
        )

    def read_saved(self) -> dict[str, int]:
        """The counts in the file; {} if it is missing or torn."""
        try:
            numbers = json.loads(self._file.read_text("utf-8"))
            return {str(one): int(number) for one, number in numbers.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
