"""One collection to another place, ids, payloads and vectors as they are."""

from collections.abc import AsyncIterator, Callable
from functools import partial

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.qdrant.local_mode import LocalFiles
from mcp_server_qdrant.qdrant.paging import paged
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
    async for page, ids in _pages(source, target, name, changed=False):
        if ids and (points := await source.fetch(name, ids, vectors=True)):
            await target.put(name, points)
        written += len(ids)
        seen += page
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
    async for _, strange in _pages(target, source, name, changed=True):
        if strange:
            raise RequestError(
                f"There is a collection {name!r} at the target already, and it holds points that "
                f"the source has not, or has otherwise (id {strange[0]}): delete one of the two."
            )


async def _pages(
    source: Readable, target: Readable, name: str, *, changed: bool
) -> AsyncIterator[tuple[int, list[PointId]]]:
    """Page by page how many points it has, and which the target lacks or (`changed`) differ."""
    async for payloads in paged(partial(source.page, name, PAGE)):
        known = await target.payloads(name, list(payloads)) if payloads else {}
        yield (
            len(payloads),
            [
                point
                for point, payload in payloads.items()
                if point not in known or (changed and known[point] != payload)
            ],
        )
