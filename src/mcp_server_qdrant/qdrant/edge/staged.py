"""A collection from elsewhere on its way into a folder: whole, and tried, beside what is there.

work/restored-*    one of them: data (the shard), json (its sidecar), count

    python -m mcp_server_qdrant.qdrant.edge.staged DIRECTORY NAME

tries one and prints its number of points. A damaged file can end the process that opens it, so this
is never the host.
"""

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_schema

_PAGE = 500


@asynccontextmanager
async def stage(root: Path) -> AsyncIterator[Path]:
    """An empty directory for a collection, gone afterwards, or at the next start of the host."""
    place = root / "work" / f"restored-{uuid4().hex}"
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def tried(place: Path, name: str) -> int:
    """Open what is staged, and read all of it: its number of points.

    Raises RequestError where it is no sound collection of that name.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __name__, str(place), name),
        cwd=place,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=DEVNULL,
    )
    try:
        points, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise RequestError(f"The backup of {name!r} is damaged: the engine cannot read it.")
    return int(points)


def main(arguments: list[str]) -> None:
    """Open one, query each of its vectors, read all payloads. Ends with any error."""
    place, name = Path(arguments[0]), arguments[1]
    sidecar = json.loads((place / "json").read_text("utf-8"))
    if sidecar["name"] != name or not isinstance(sidecar.get("metadata"), dict | None):
        raise RequestError("It is described as something else.")
    check_schema(sidecar["vectors"], sidecar["sparse_vectors"])
    shard = edge.EdgeShard.load(str(place / "data"))
    for using, vector in _examples(sidecar):
        query = edge.Query.Nearest(types.to_vector(vector), using=using or None)
        shard.query(edge.QueryRequest(query=query, limit=1))
    offset = None
    while True:
        request = edge.ScrollRequest(offset=offset, limit=_PAGE, with_payload=True)
        _, offset = shard.scroll(request)
        if offset is None:
            break
    sys.stdout.write(str(shard.count(edge.CountRequest(exact=True))))
    shard.close()


def _examples(sidecar: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A query for each vector that it is said to have."""
    for name, params in sidecar["vectors"].items():
        zeros = [0.0] * params["size"]
        yield name, [zeros] if params.get("multivector_config") else zeros
    for name in sidecar["sparse_vectors"]:
        yield name, {"indices": [0], "values": [1.0]}


if __name__ == "__main__":
    main(sys.argv[1:])
