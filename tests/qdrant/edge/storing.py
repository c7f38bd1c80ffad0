"""Stores points in a folder until it is killed, and prints which were acknowledged.

python -m tests.qdrant.edge.storing FOLDER FIRST
"""

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from qdrant_client import models

from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests import forked

SIZE = 8
ROOT = Path(__file__).parents[3]


def point(i: int) -> models.PointStruct:
    """A point derived from its id."""
    return models.PointStruct(
        id=i,
        vector={
            "d": [float(i % 7), *[1.0] * (SIZE - 1)],
            "s": models.SparseVector(indices=[i % 50], values=[1.0]),
        },
        payload={"n": i},
    )


async def make(client: EdgeClient, name: str = "c") -> None:
    await client.create_collection(
        name,
        {"d": models.VectorParams(size=SIZE, distance="Cosine")},
        {"s": models.SparseVectorParams(modifier="idf")},
    )


def started(folder: Path, first: int) -> "subprocess.Popen[str]":
    """Start such a process. It prints an empty line, then a line per acknowledged batch."""
    command = [sys.executable, "-m", __name__, str(folder), str(first)]
    return forked.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@contextmanager
def storing(folder: Path, first: int) -> "Iterator[subprocess.Popen[str]]":
    """Such a process, killed at the end in whatever state it is."""
    child = started(folder, first)
    try:
        yield child
        assert child.poll() is None, "it worked until it was killed"
    finally:
        child.kill()
        child.wait()


async def main(folder: Path, first: int) -> None:
    client = await EdgeClient.open(folder)
    if not await client.collection_exists("c"):
        await make(client)
    print(flush=True)
    fresh, dice = count(first), random.Random(first)

    async def store() -> None:
        while True:
            batch = [next(fresh) for _ in range(dice.choice([1, 10, 150]))]
            await client.upsert("c", [point(i) for i in batch])
            print(*batch, flush=True)

    await asyncio.gather(*(store() for _ in range(3)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
