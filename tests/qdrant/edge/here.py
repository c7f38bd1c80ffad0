"""The store of a folder in the test's process, or in one that it kills; few imports."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import Folder, copy_sparse
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.edge.space import Space, translate_errors
from mcp_server_qdrant.qdrant.edge.store import Store
from mcp_server_qdrant.qdrant.edge.takeover import find_earlier, migrate_all
from mcp_server_qdrant.qdrant.marks import damage

VECTORS = {"d": {"size": 2, "distance": "Dot"}}
SPARSE = {"s": {"modifier": "idf"}}


async def pause() -> None:
    """Do nothing, as no other call waits."""


def made(vectors=VECTORS, sparse=(), **more) -> dict[str, Any]:
    """The description of a new collection."""
    described = {"vectors": dict(vectors), "sparse_vectors": dict(sparse)}
    return described | {"metadata": None, "indexes": {}} | more


def crashed(folder: Path, target: Path) -> Path:
    """Copy the folder as a process killed now would leave it."""
    target.mkdir()
    for path in folder.iterdir():
        if path.is_file():
            shutil.copy(path, target)
        elif path.name not in ("trash", "work"):  # emptied in the background
            copy_sparse(path, target / path.name)
    return target


class Direct:
    """An engine that does each call at once, in the event loop of its caller."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pause = self.let_reads_go_first = pause

    async def call(self, work: Any, _: str, **__: Any) -> Any:
        return await work()


class Here:
    """The engine's store in this process; creates `names` with one dense vector of size 2."""

    def __init__(self, root: Path, *names: str, **described: Any) -> None:
        self.root = root
        self.open()
        self.do(*(("create_described", name, made(**described)) for name in names))

    def open(self) -> None:
        """Open the store like the engine."""
        folder = Folder(self.root)
        folder.prepare()
        self.store = Store(folder)
        self.store.read()
        find_earlier(self.store)
        self.client = EdgeClient(Direct(self.store), 60)

    def again(self) -> None:
        """Close it and open it again, like a new process."""
        self.store.close()
        self.open()

    def write(self, operation: str, *arguments: Any, **named: Any) -> Any:
        """Write durably, as the engine does before it acknowledges."""
        try:
            return self.read(operation, *arguments, **named)
        finally:
            self.store.settle()

    def do(self, *calls: Any) -> list[Any]:
        """Write several operations in order."""
        return [self.write(*call) for call in calls]

    def read(self, operation: str, *arguments: Any, **named: Any) -> Any:
        with translate_errors(""):
            return asyncio.run(getattr(self.client, operation)(*arguments, **named))

    def info(self, name: str = "a") -> models.CollectionInfo:
        return self.read("get_collection", name)

    def count(self, name: str, where: dict[str, Any] | None = None) -> int:
        return self.read("count", name, where).count

    def tidy(self) -> None:
        """Remove the points of deleted collections."""
        asyncio.run(self.store.remove_unwanted(pause))

    def take_over(self) -> None:
        asyncio.run(migrate_all(self.store, pause))

    def space(self, name: str = "a") -> Space:
        return self.store.get(name).space

    def shard(self, name: str = "a") -> Path:
        """The folder of a collection's shard."""
        return self.space(name).shard

    def damage(self, name: str = "a") -> str | None:
        """What is missing from a collection, after opening it."""
        return damage(self.info(name))

    def number(self, name: str = "a") -> int | None:
        """The stored number of points."""
        found = self.store.get(name)
        return found.space.census.read_saved().get(found.entry.id)

    def points(self, name: str = "a") -> dict[Any, Any]:
        """All points of a collection by id."""
        found, _ = self.read("scroll", name, limit=10_000, with_vectors=True)
        return {one.id: (one.payload, plain(one.vector)) for one in found}

    def all_points(self) -> dict[str, dict[Any, Any]]:
        return {name: self.points(name) for name in self.store.names()}


def upsert(*ids, name="a", says=None):
    points = [
        (i, {"d": [1.0, 2.0]}, {"n": i, "odd": i % 2} | ({"says": says} if says else {}))
        for i in ids
    ]
    return "put", name, points


def delete(*some, name="a"):
    return "delete", name, list(some)


def filtered(where):
    return models.Filter.model_validate(where or {})


ODD = filtered({"must": [{"key": "odd", "match": {"value": 1}}]})
