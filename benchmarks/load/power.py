"""Is a write to the embedded engine there after a power failure? Linux, as root.

    python benchmarks/load/power.py [--cuts 40] [--seed 1] [--without]

A store lies on a file system of its own, in a file (a loop device). After some writes, each made
durable as the engine does it, a random part of what the kernel still holds is written back. What
the file has at that moment is what a disk has when the power is cut: a copy of it is mounted and
opened, and compared with all that was acknowledged. `--without`: nothing is made durable, so that
writes are lost.
"""

import argparse
import asyncio
import ctypes
import os
import random
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.qdrant.edge import files
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import Folder
from mcp_server_qdrant.qdrant.edge.store import Store
from mcp_server_qdrant.qdrant.filters import equal

files.MIN_FREE = 0
SIZE = 64
SPARSE = {"bm25": {"modifier": "idf"}}
INDEXES = {"n": "integer", "tags": "keyword", "updated_at": "datetime"}
WRITE_BACK = 7  # sync_file_range: write it, and wait until it is written
PAGE = 4096


class Written:
    """Collections of one store, written to as the engine does, and what they should hold."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.points: dict[str, dict[str, dict[str, Any]]] = {}  # by collection and id
        self._chance = chance
        self.open(folder)

    def open(self, folder: Path) -> None:
        place = Folder(folder)
        place.prepare()
        self.store = Store(place)
        self.store.read()
        self.client = EdgeClient(Direct(self.store), 60)

    def do(self, operation: str, *arguments: Any, durable: bool = True) -> None:
        asyncio.run(getattr(self.client, operation)(*arguments))
        if durable:
            self.store.settle()

    def make(self, name: str, *, durable: bool) -> None:
        """A new collection of the space that the others are in."""
        dense = {"d": {"size": SIZE, "distance": "Dot"}}
        described = {"vectors": dense, "sparse_vectors": SPARSE, "metadata": None}
        self.do("create_described", name, described | {"indexes": INDEXES}, durable=durable)
        self.points[name] = {}

    def write(self, *, durable: bool) -> None:
        """Store, replace, change or delete some points; make, change or drop a collection."""
        chance, kind = self._chance, self._chance.random()
        if not self.points or (kind < 0.04 and len(self.points) < 6):
            self.make(f"c{chance.getrandbits(32)}", durable=durable)
            return
        name = chance.choice(sorted(self.points))
        if kind > 0.99 and len(self.points) > 2:
            del self.points[name]
            self.do("delete_collection", name, durable=durable)
            return
        points = self.points[name]
        known = sorted(points)
        one = chance.choice(known) if known else ""
        if kind < 0.7 or not known:
            new = [
                str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(chance.choice((1, 16)))
            ]
            self._store(name, [one] if known and kind < 0.15 else new, durable=durable)
        elif kind < 0.8:
            more = {"extra": chance.randrange(1000)}
            points[one] |= more
            self.do("set_payload", name, more, [one], durable=durable)
        elif kind < 0.85:
            points[one].pop("n", None)
            self.do("delete_payload", name, ["n"], [one], durable=durable)
        elif kind < 0.95:
            del points[one]
            self.do("delete", name, [one], durable=durable)
        elif kind < 0.98:
            field = {f"field{chance.randrange(20)}": "keyword"}
            self.do("create_payload_indexes", name, field, durable=durable)
        elif chance.random() < 0.2:
            added = f"more{chance.randrange(4)}", {"sparse": {"modifier": "idf"}}
            self.do("create_vector_name", name, *added, durable=durable)
        else:
            asyncio.run(self.store.remove_unwanted(pause))

    def _store(self, name: str, ids: list[str], *, durable: bool) -> None:
        made = []
        for point in ids:
            n = self._chance.randrange(1000)
            payload = {"document": f"text {n} " * (n % 200), "n": n, "tags": [f"t{n % 7}"]}
            vectors = {
                "d": [float(n + 1)] * SIZE,
                "bm25": {"indices": [n, 7777], "values": [1.0, 2.0]},
            }
            self.points[name][point] = {**payload, "first": n}
            made.append((point, vectors, dict(self.points[name][point])))
        self.do("put", name, made, durable=durable)

    def flush(self) -> None:
        for space in self.store.spaces.values():
            space.flush()

    def fault(self, folder: Path) -> str:
        """What a copy of the folder lacks of the points, or has otherwise; "": nothing."""
        copy = Written(folder, self._chance)
        try:
            if copy.store.names() != sorted(self.points):
                return f"{copy.store.names()} instead of {sorted(self.points)}"
            faults = [copy.differs(name, points) for name, points in self.points.items()]
            return ", ".join(one for one in faults if one)
        finally:
            copy.store.close()

    def differs(self, name: str, right: dict[str, dict[str, Any]]) -> str:
        """How a collection differs from what it should hold; "": in nothing."""
        there, _ = asyncio.run(self.client.scroll(name, limit=1_000_000, with_vectors=True))
        found = {one.id: (one.payload, one.vector["d"][0]) for one in there}
        wanted = {point: (held, held["first"] + 1.0) for point, held in right.items()}
        wrong = sum(found.get(point) != one for point, one in wanted.items())
        where = models.Filter(must=[equal("tags", "t3")])
        by_tag = asyncio.run(self.client.count(name, where)).count
        tagged = sum("t3" in held["tags"] for held in right.values())
        collection = self.store.get(name)
        same = (len(found), collection.count(), by_tag) == (len(right), len(right), tagged)
        return "" if same and not wrong and not collection.damage() else f"{wrong} of {len(right)}"


async def pause() -> None:
    """Nobody else is there."""


class Direct:
    """An engine that does each call at once."""

    pause = let_reads_go_first = staticmethod(pause)

    def __init__(self, store: Store) -> None:
        self.store = store

    async def call(self, work: Any, _: str, **__: Any) -> Any:
        return await work()


def run(*command: Any) -> None:
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """The file system in a file, while it is used."""
    place.mkdir(exist_ok=True)
    run("mount", "-o", "loop", image, place)
    try:
        yield place
    finally:
        run("umount", place)


def write_back(folder: Path, chance: random.Random) -> None:
    """Have the kernel write some pages of some files, in any order, as it does in time."""
    libc = ctypes.CDLL(None)
    for path in (path for path in folder.rglob("*") if path.is_file() and chance.random() < 0.4):
        with path.open("rb") as file:
            pages = max(os.fstat(file.fileno()).st_size // PAGE, 1)
            for _ in range(3):
                start = ctypes.c_longlong(chance.choice((0, chance.randrange(pages))) * PAGE)
                length = ctypes.c_longlong(chance.choice((1, 4, 64)) * PAGE)
                libc.sync_file_range(file.fileno(), start, length, WRITE_BACK)
    if chance.random() < 0.3:
        with (folder / "other").open("wb") as file:
            os.fsync(file.fileno())  # another program has the journal written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", action="store_true", help="make nothing durable")
    args = parser.parse_args()
    chance, faults = random.Random(args.seed), 0
    with tempfile.TemporaryDirectory() as work:
        image, cut = Path(work, "image"), Path(work, "cut")
        run("truncate", "-s", "400M", image)
        run("mkfs.ext4", "-q", "-F", image)
        with mounted(image, Path(work, "live")) as live:
            store = Written(live / "engine", chance)
            for _ in range(args.cuts):
                for _ in range(chance.choice((1, 2, 5, 30))):
                    store.write(durable=not args.without)
                    if chance.random() < 0.03:
                        store.flush()
                write_back(live, chance)
                run("cp", "--sparse=always", image, cut)
                with mounted(cut, Path(work, "after")) as after:
                    fault = store.fault(after / "engine")
                if fault:
                    faults += 1
                    print(f"lost or changed: {fault}")
            store.store.close()
    points = sum(map(len, store.points.values()))
    print(f"{faults} of {args.cuts} cuts lost or changed something; {points} points")


if __name__ == "__main__":
    main()
