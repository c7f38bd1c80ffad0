"""Is a write to the embedded engine there after a power failure? Linux, as root.

    python benchmarks/power.py [--cuts 40] [--seed 1] [--without]

The folder of an engine lies on a file system of its own, in a file (a loop device). After writes,
each made durable as the host does it, a random part of what the kernel still holds is written back.
What the file has at that moment is what a disk has when the power is cut: a copy of it is mounted
and opened, and compared with all that was acknowledged. `--without`: nothing is made durable, so
that writes are lost.
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

from mcp_server_qdrant.hosting.wire import pack
from mcp_server_qdrant.qdrant.edge.files import Folder
from mcp_server_qdrant.qdrant.edge.reads import Reads
from mcp_server_qdrant.qdrant.edge.store import Store as Kept
from mcp_server_qdrant.qdrant.edge.writes import Writes

SIZE = 64
SPARSE = {"bm25": {"modifier": "idf"}}
INDEXES = {"n": "integer", "tags": "keyword", "updated_at": "datetime"}
WRITE_BACK = 7  # sync_file_range: write it, and wait until it is written
PAGE = 4096


class Store:
    """A collection, written to as the host does, and what it should hold."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        async def pause() -> None:
            """Nobody else is there."""

        self.points: dict[str, dict[str, Any]] = {}
        self._chance, self._pause = chance, pause
        self.open(folder)

    def open(self, folder: Path) -> None:
        place = Folder(folder, 0)
        place.prepare()
        self.kept = Kept(place)
        self.kept.read()
        self._reads = Reads(self.kept, self._pause)
        self._writes = Writes(self.kept, self._pause)

    def do(self, operation: str, *arguments: Any, durable: bool = True) -> None:
        asyncio.run(getattr(self._writes, operation)("c", *arguments))
        if durable:
            self.kept.settle()

    def write(self, *, durable: bool) -> None:
        """Store, replace, change or delete some points, or add an index or a vector."""
        chance, known, kind = self._chance, sorted(self.points), self._chance.random()
        one = chance.choice(known) if known else ""
        where = {"must": [{"has_id": [one]}]}
        if kind < 0.7 or not known:
            new = [
                str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(chance.choice((1, 16)))
            ]
            self._store([one] if known and kind < 0.15 else new, durable=durable)
        elif kind < 0.8:
            more = {"extra": chance.randrange(1000)}
            self.points[one] |= more
            self.do("set_payload", more, where, None, durable=durable)
        elif kind < 0.85:
            self.points[one].pop("n", None)
            self.do("delete_payload", ["n"], where, durable=durable)
        elif kind < 0.95:
            del self.points[one]
            self.do("delete", where, durable=durable)
        elif kind < 0.98:
            self.do("index", {f"field{chance.randrange(20)}": "keyword"}, durable=durable)
        else:
            name = f"more{chance.randrange(20)}"
            self.do("add_vector", name, "sparse_vectors", {"modifier": "idf"}, durable=durable)

    def _store(self, ids: list[str], *, durable: bool) -> None:
        made = []
        for point in ids:
            n = self._chance.randrange(1000)
            payload = {"document": f"text {n} " * (n % 200), "n": n, "tags": [f"t{n % 7}"]}
            vectors = {
                "d": [float(n + 1)] * SIZE,
                "bm25": {"indices": [n, 7777], "values": [1.0, 2.0]},
            }
            self.points[point] = {**payload, "first": n}
            made.append((point, vectors, dict(self.points[point])))
        self.do("upsert", [pack(made)], durable=durable)

    def fault(self, folder: Path) -> str:
        """What a copy of the folder lacks of the points, or has otherwise; "": nothing."""
        copy = Store(folder, self._chance)
        try:
            asked = {"ids": sorted(self.points), "with_payload": True, "with_vector": True}
            there = asyncio.run(copy._reads.retrieve("c", asked))
            found = {one["id"]: (one["payload"], one["vector"]["d"][0]) for one in there}
            right = {point: (held, held["first"] + 1.0) for point, held in self.points.items()}
            wrong = sum(found.get(point) != one for point, one in right.items())
            kept = copy.kept.get("c")
            by_tag = kept.count({"must": [{"key": "tags", "match": {"value": "t3"}}]})
            wanted = sum("t3" in held["tags"] for held in self.points.values())
            counts = (kept.count(), by_tag) == (len(right), wanted)
            return "" if counts and not wrong and not kept.damage() else f"{wrong} of {len(right)}"
        finally:
            copy.kept.close()


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
            store = Store(live / "engine", chance)
            dense = {"d": {"size": SIZE, "distance": "Dot"}}
            store.do("create", {"vectors": dense, "sparse_vectors": SPARSE, "metadata": None})
            store.do("index", INDEXES)
            for _ in range(args.cuts):
                for _ in range(chance.choice((1, 2, 5, 30))):
                    store.write(durable=not args.without)
                    if chance.random() < 0.03:
                        store.kept.get("c").space.flush()
                write_back(live, chance)
                run("cp", "--sparse=always", image, cut)
                with mounted(cut, Path(work, "after")) as after:
                    fault = store.fault(after / "engine")
                if fault:
                    faults += 1
                    print(f"lost or changed: {fault}")
            store.kept.close()
    print(f"{faults} of {args.cuts} cuts lost or changed something; {len(store.points)} points")


if __name__ == "__main__":
    main()
