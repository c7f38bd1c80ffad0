"""One collection to another place, ids, payloads and vectors as they are."""

from collections.abc import Callable

from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.qdrant.local_mode import LocalFiles
from mcp_server_qdrant.qdrant.write.bulk import Bulk

PAGE = 128  # points with vectors and texts in one request

Readable = Bulk | LocalFiles
Progress = Callable[[int], None]


async def copy(
    source: Readable, target: Bulk, name: str, progress: Progress = lambda _: None
) -> int:
    """The collection made, or completed, at the target; how many points were written.

    Raises RequestError where the target has a collection of this name that holds anything else,
    EngineFailure where in the end the two do not hold as many points.
    """
    if await target.exists(name):
        await _check(source, target, name)
    else:
        await target.make(name, await source.shape(name))
    written = await complete(source, target, name, progress)
    there, here = await source.count(name), await target.count(name)
    if there != here:
        raise EngineFailure(
            f"{name!r} has {there} points, and its copy {here}: it was written to meanwhile. "
            "Stop what writes to it, and copy again."
        )
    return written


async def complete(
    source: Readable, target: Bulk, name: str, progress: Progress = lambda _: None
) -> int:
    """Write the points that the target lacks; how many those were."""
    written = seen = 0
    async for points in source.pages(name, PAGE, vectors=True):
        known = await target.payloads(name, [point.id for point in points]) if points else {}
        if new := [point for point in points if point.id not in known]:
            await target.put(name, new)
        written += len(new)
        seen += len(points)
        progress(seen)
    return written


async def _check(source: Readable, target: Bulk, name: str) -> None:
    """Refuse a target that is anything else than a part of the source."""
    here, there = (await target.shape(name)).plan(), (await source.shape(name)).plan()
    if not there.items() <= here.items():  # more is what an upgrade gave it
        raise RequestError(
            f"There is a collection {name!r} at the target already, with other vectors: "
            "delete one of the two."
        )
    async for points in target.pages(name, PAGE):
        known = await source.payloads(name, [point.id for point in points]) if points else {}
        for point in points:
            if known.get(point.id) != (point.payload or {}):
                raise RequestError(
                    f"There is a collection {name!r} at the target already, and it holds points "
                    f"that the source has not, or has otherwise (id {point.id}): delete one of "
                    "the two."
                )
