"""A shard that is about to take another one's place, made and tried by a process of its own.

Optimising freezes a process for seconds to minutes, and a damaged file can end the one that opens
it; so this is never the host.

    python -m mcp_server_qdrant.qdrant.edge.copies PLACE POINTS [SHARD]

fails unless the shard PLACE/data can be opened and holds so many points. With SHARD it is made
first: an optimised copy of that one.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge.files import copy_sparse, sync_tree


@contextmanager
def stage(root: Path) -> Iterator[Path]:
    """A place for a collection that is restored: `data` (the shard), `json` (its sidecar), `count`.

    It is gone afterwards, or at the next start of the host.
    """
    place = root / "work" / f"restored-{uuid4().hex}"
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def try_staged(place: Path, name: str, points: int) -> None:
    """Open what is staged. Raises RequestError where it does not hold so many points."""
    if await asyncio.to_thread(start(place, points).wait):
        raise RequestError(
            f"The backup of {name!r} is damaged: the engine cannot read its {points:,} points."
        )


def start(place: Path, points: int, shard: Path | None = None) -> "subprocess.Popen[bytes]":
    """Begin to make or to try the shard in that place."""
    module = "mcp_server_qdrant.qdrant.edge.copies"
    given = [str(place), str(points), *([str(shard)] if shard else [])]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *given],
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def main(arguments: list[str]) -> None:
    """Open the shard, a copy with low priority; fail if it lacks points."""
    data, points = Path(arguments[0]) / "data", int(arguments[1])
    made = len(arguments) > 2
    if made:
        if sys.platform != "win32":
            os.nice(10)
        copy_sparse(Path(arguments[2]), data)
    engine = edge.EdgeShard.load(str(data))
    if made:
        engine.optimize()
        engine.flush()
    found = engine.count(edge.CountRequest(exact=True))
    engine.close()
    sync_tree(data)
    if found != points:
        sys.exit(f"The shard holds {found} points, not {points}.")


if __name__ == "__main__":
    main(sys.argv[1:])
