"""Copies collections to another engine, with ids, payloads and vectors unchanged.

Also imports a folder of the official server's local mode into the embedded engine; its files stay
untouched.
"""

import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from mcp_server_qdrant.core.errors import EngineFailure, QdrantMcpError, RequestError, contained
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.ingest.collections.upgrade import Upgrades
from mcp_server_qdrant.qdrant.local_mode import LocalFiles, import_due
from mcp_server_qdrant.qdrant.payload import EXPIRES
from mcp_server_qdrant.qdrant.write.bulk import Bulk

PAGE = 128  # points with vectors and texts per request
UNFINISHED = "its import from local mode is not finished: start the server again to go on"

logger = logging.getLogger(__name__)

Readable = Bulk | LocalFiles
Progress = Callable[[int], None]


async def copy(
    source: Readable, target: Bulk, name: str, progress: Progress = lambda _: None
) -> int:
    """Create or complete the collection at the target; returns the number of written points.

    Raises RequestError if the target has a different collection with this name, EngineFailure if
    the point counts differ at the end.
    """
    if await target.exists(name):
        await _check(source, target, name)
        indexes = (await source.shape(name)).indexes
        if EXPIRES in indexes:
            await target.index_expiry(name)
    else:
        await target.create_like(name, await source.shape(name))
    written = await _complete(source, target, name, progress)
    there, here = await source.count(name), await target.count(name)
    if there != here:
        raise EngineFailure(
            f"{name!r} has {there} points, and its copy {here}: it was written to meanwhile. "
            "Stop what writes to it, and copy again."
        )
    return written


async def _complete(
    source: Readable, target: Bulk, name: str, progress: Progress = lambda _: None
) -> int:
    """Write the points that the target lacks, and return their number."""
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
    """Raise RequestError unless the target is a partial copy of the source."""
    here, there = (await target.shape(name)).plan(), (await source.shape(name)).plan()
    if not there.items() <= here.items():  # the target may have been upgraded
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
                    f"that the source lacks or has with another payload (id {point.id}): delete "
                    "one of the two."
                )


async def import_local_mode(folder: Path, target: Bulk, bm25: Bm25Encoder) -> None:
    """Import all new collections of local mode, and add BM25 vectors.

    An interrupted import continues. A collection that fails is logged and retried at the next
    start; one whose name is taken is not imported.
    """
    upgrades = Upgrades(target, bm25)
    async with import_due(folder) as due:
        if not due:
            return
        try:
            source = LocalFiles(folder)
        except EngineFailure as error:
            logger.warning("%s", error)
            return
        for name in await source.names():
            state = source.states.get(name)
            if state in ("done", "refused"):
                continue
            if state is None and name in await target.names():
                source.save_state(name, "refused")
                logger.warning(
                    "Not imported from local mode: there is a collection %r already.", name
                )
                continue
            try:
                with contained():
                    summary = await _bring_in(source, target, name)
                    with contextlib.suppress(RequestError):  # it has its own keyword vectors
                        await upgrades.keywords(name)
                    await target.record_import(name, summary)
            except QdrantMcpError as error:
                logger.warning("The import of %r from local mode is not finished: %s", name, error)
            else:
                source.save_state(name, "done")
                logger.warning("The collection %r: %s. Its old files are untouched.", name, summary)


async def _bring_in(source: LocalFiles, target: Bulk, name: str) -> str:
    """Copy the points and return a summary."""
    source.save_state(name, "begun")
    if name not in await target.names():
        await target.create_like(name, await source.shape(name))
        await target.record_import(name, UNFINISHED)
    await _complete(source, target, name)
    lost = source.unreadable.get(name, 0)
    today = datetime.now(UTC)
    said = f"{await source.count(name)} points imported from local mode on {today:%Y-%m-%d}"
    return f"{said}; {lost} could not be read" if lost else said
