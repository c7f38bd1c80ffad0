"""Layouts that took long to make, in memory and on disk, to be carried over to later maps.

On disk they are a cache and nothing else: what is lost or damaged is made again.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mcp_server_qdrant.core.cachefile import CacheFile, digest
from mcp_server_qdrant.core.maps import Panel
from mcp_server_qdrant.projection.pca import Vectors

FILE = "layouts-1.sqlite3"
MOST = 2_000_000  # points of all layouts of all engines and tenants, of 16 bytes each
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS layouts (id INTEGER PRIMARY KEY, key BLOB NOT NULL, "
    "model TEXT NOT NULL, points INTEGER NOT NULL, spots BLOB NOT NULL, places BLOB NOT NULL)"
)

Spots = NDArray[np.uint64]


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """The places (n, 2) of a panel's points by their `spots`, which rise."""

    model: str
    spots: Spots
    places: Vectors

    @classmethod
    def of(cls, panel: Panel) -> "Layout":
        """That of a panel which has one."""
        assert panel.neighbours is not None
        spots = spots_of(panel)
        order = np.argsort(spots)
        return cls(panel.model, spots[order], panel.neighbours[order])

    def places_of(self, spots: Spots) -> tuple[Vectors, NDArray[np.bool_]]:
        """The places of these, and which of them are known."""
        at = np.searchsorted(self.spots, spots).clip(max=len(self.spots) - 1)
        return self.places[at], np.asarray(self.spots[at] == spots)


def spots_of(panel: Panel) -> Spots:
    """A number for each point: by collection, id, and how its text begins."""
    numbers = [
        blake2b(f"{group.collection}\0{one}\0{snippet}".encode(), digest_size=8).digest()
        for group in panel.groups
        for one, snippet in zip(group.ids, group.snippets, strict=True)
    ]
    return np.frombuffer(b"".join(numbers), "<u8").astype(np.uint64)


class LayoutCache:
    """The layouts of one engine's maps, in a file below `folder` that engines share.

    Calls block, and none raises. The file is open during a call only.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._file = CacheFile(folder / FILE, SCHEMA)
        self._engine = engine

    def load(self, names: Sequence[str]) -> list[Layout]:
        """The layouts of the map that is named so: one for each of its panels."""
        query = "SELECT model, spots, places FROM layouts WHERE key = ?"
        key = digest(self._engine, *names)
        rows = self._file.once(lambda held: held.execute(query, (key,)).fetchall())
        found = []
        for model, numbers, places in rows or ():
            with suppress(ValueError, TypeError):  # damaged, though the file as such is sound
                spots = np.frombuffer(numbers, "<u8").astype(np.uint64)
                at = np.frombuffer(places, "<f4").astype(np.float32).reshape(len(spots), 2)
                if len(spots) and np.isfinite(at).all():
                    found.append(Layout(str(model), spots, at))
        return found

    def save(self, names: Sequence[str], layouts: Sequence[Layout]) -> None:
        """Keep the layouts of a map instead of those it had; the oldest beyond `MOST` go."""
        key = digest(self._engine, *names)
        rows = [
            (key, one.model, len(one.spots), one.spots.astype("<u8").tobytes(), _places(one))
            for one in layouts
        ]

        def write(held: sqlite3.Connection) -> None:
            held.execute("DELETE FROM layouts WHERE key = ?", (key,))
            held.executemany(
                "INSERT INTO layouts (key, model, points, spots, places) VALUES (?, ?, ?, ?, ?)",
                rows,
            )
            held.execute(
                "DELETE FROM layouts WHERE id IN (SELECT id FROM (SELECT id, "
                "SUM(points) OVER (ORDER BY id DESC) AS held FROM layouts) WHERE held > ?)",
                (MOST,),
            )

        self._file.once(write)


def _places(layout: Layout) -> bytes:
    return layout.places.astype("<f4").tobytes()
