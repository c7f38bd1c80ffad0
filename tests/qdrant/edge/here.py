"""The store of a folder in the process of a test, or of one that it kills: imports little."""

import asyncio
from pathlib import Path
from typing import Any

from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.qdrant.edge.files import Folder
from mcp_server_qdrant.qdrant.edge.reads import Reads
from mcp_server_qdrant.qdrant.edge.space import Space, guarded
from mcp_server_qdrant.qdrant.edge.store import Store
from mcp_server_qdrant.qdrant.edge.takeover import find, take_over
from mcp_server_qdrant.qdrant.edge.writes import Writes

VECTORS = {"d": {"size": 2, "distance": "Dot"}}
SPARSE = {"s": {"modifier": "idf"}}


async def pause() -> None:
    """Nobody else is there."""


def made(vectors=VECTORS, sparse=(), **more) -> dict[str, Any]:
    """The description of a new collection."""
    return {"vectors": dict(vectors), "sparse_vectors": dict(sparse), "metadata": None} | more


class Here:
    """The work of a host in this process; `names` are made, with one dense vector of size 2."""

    def __init__(self, root: Path, *names: str, **described: Any) -> None:
        self.root = root
        self.open()
        self.do(*(("create", name, made(**described)) for name in names))

    def open(self) -> None:
        """As a host does when it starts."""
        folder = Folder(self.root, 0)
        folder.prepare()
        self.store = Store(folder)
        self.store.read()
        find(self.store)
        self.reads, self.writes = Reads(self.store, pause), Writes(self.store, pause)

    def again(self) -> None:
        """A new host."""
        self.store.close()
        self.open()

    def write(self, operation: str, *arguments: Any) -> Any:
        """A write, made durable as the host does before it acknowledges it."""
        try:
            with guarded(""):
                return asyncio.run(getattr(self.writes, operation)(*arguments))
        finally:
            self.store.settle()

    def do(self, *calls: Any) -> list[Any]:
        """Writes, one after the other."""
        return [self.write(*call) for call in calls]

    def read(self, operation: str, *arguments: Any) -> Any:
        with guarded(""):
            return asyncio.run(getattr(self.reads, operation)(*arguments))

    def tidy(self) -> None:
        """Remove the points of collections that are gone."""
        asyncio.run(self.store.remove_unwanted(pause))

    def take_over(self) -> None:
        asyncio.run(take_over(self.store, pause))

    def space(self, name: str = "a") -> Space:
        return self.store.get(name).space

    def shard(self, name: str = "a") -> Path:
        """The folder of its engine's files."""
        return self.space(name).shard

    def damage(self, name: str = "a") -> str | None:
        """What is missing, once it is open."""
        return self.read("info", name)["damage"]

    def number(self, name: str = "a") -> int | None:
        """The number that is remembered."""
        found = self.store.get(name)
        return found.space.census.remembered().get(found.entry.id)

    def points(self, name: str = "a") -> dict[Any, Any]:
        """All that it has, by id."""
        asked = {"limit": 10_000, "with_payload": True, "with_vector": True}
        found = self.read("scroll", name, asked)["points"]
        return {one["id"]: (one["payload"], one["vector"]) for one in found}

    def all_points(self) -> dict[str, dict[Any, Any]]:
        return {name: self.points(name) for name in self.store.names()}


def upsert(*ids, name="a", says=None):
    points = [
        (i, {"d": [1.0, 2.0]}, {"n": i, "odd": i % 2} | ({"says": says} if says else {}))
        for i in ids
    ]
    return "upsert", name, [wire.pack(points)]


def ids(*some):
    return {"must": [{"has_id": list(some)}]}


def delete(*some, name="a"):
    return "delete", name, ids(*some)


ODD = {"must": [{"key": "odd", "match": {"value": 1}}]}
