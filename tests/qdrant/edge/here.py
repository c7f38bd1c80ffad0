"""The shards of a folder in the process of a test, or of one that it kills: imports little."""

import asyncio
from pathlib import Path
from typing import Any

from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.qdrant.edge.files import Folder, slug_of
from mcp_server_qdrant.qdrant.edge.shards import Shards
from mcp_server_qdrant.qdrant.edge.writes import Writes


class Here:
    """The work of a host in this process, on shards that a test has made."""

    def __init__(self, shards: Shards) -> None:
        async def pause() -> None:
            """Nobody else is there."""

        self.shards, self.writes = shards, Writes(shards, pause)

    def write(self, operation: str, *arguments: Any) -> Any:
        """A write, made durable as the host does before it acknowledges it."""
        try:
            return asyncio.run(getattr(self.writes, operation)(*arguments))
        finally:
            self.shards.settle(arguments[0])


def shards_in(path, *names, max_open=8):
    folder = Folder(path, 0)
    folder.prepare()
    shards = Shards(folder, max_open)
    for name in names:
        vectors = {"d": {"size": 2, "distance": "Dot"}}
        made = {"vectors": vectors, "sparse_vectors": {}, "metadata": None}
        shards.create(name, made)
    return shards


class Store(Here):
    """The shards of a folder, written to as the host does."""

    def __init__(self, folder: Path, *names: str) -> None:
        super().__init__(shards_in(folder, *names))
        self.folder = folder
        self.again()

    def again(self) -> None:
        """A new host."""
        self.shards.close_all()
        shards = Shards(Folder(self.folder, 0), 8)
        shards.scan()
        Here.__init__(self, shards)

    def do(self, *calls):
        """Writes, one after the other."""
        return [self.write(*call) for call in calls]

    def damage(self, name="a"):
        """What is missing, once it is open."""
        shard = self.shards.get(name)
        _ = shard.engine
        return shard.damage()

    def number(self, name="a"):
        """The number that is remembered."""
        return self.shards.get(name).census.remembered()

    def path(self, name="a") -> Path:
        return self.folder / "shards" / slug_of(name)


def upsert(*ids, name="a"):
    points = [(i, {"d": [1.0, 2.0]}, {"n": i, "odd": i % 2}) for i in ids]
    return "upsert", name, [wire.pack(points)]


def delete(*ids, name="a"):
    return "delete", name, {"must": [{"has_id": list(ids)}]}


ODD = {"must": [{"key": "odd", "match": {"value": 1}}]}
