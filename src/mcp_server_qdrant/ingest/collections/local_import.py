"""A folder of the official server becomes the embedded engine's; its files stay untouched."""

import contextlib
import logging
from datetime import UTC, datetime
from pathlib import Path

from mcp_server_qdrant.core.errors import EngineFailure, QdrantMcpError, RequestError, contained
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.ingest.collections.copying import complete
from mcp_server_qdrant.ingest.collections.upgrade import Upgrades
from mcp_server_qdrant.qdrant.local_mode import LocalFiles, import_due
from mcp_server_qdrant.qdrant.write.bulk import Bulk

UNFINISHED = "its import from local mode is not finished: start the server again to go on"

logger = logging.getLogger(__name__)


async def import_local_mode(folder: Path, target: Bulk, bm25: Bm25Encoder) -> None:
    """Import every collection of local mode that was not imported yet, and give it keywords.

    What was interrupted goes on. A collection that fails is logged and tried again at the next
    start; one whose name is taken stays where it is.
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
                source.record(name, "refused")
                logger.warning(
                    "Not imported from local mode: there is a collection %r already.", name
                )
                continue
            try:
                with contained():
                    summary = await _bring_in(source, target, name)
                    with contextlib.suppress(RequestError):  # it has keywords of its own
                        await upgrades.keywords(name)
                    await target.note(name, summary)
            except QdrantMcpError as error:
                logger.warning("The import of %r from local mode is not finished: %s", name, error)
            else:
                source.record(name, "done")
                logger.warning("The collection %r: %s. Its old files are untouched.", name, summary)


async def _bring_in(source: LocalFiles, target: Bulk, name: str) -> str:
    """Copy the points; a summary."""
    source.record(name, "begun")
    if name not in await target.names():
        await target.make(name, await source.shape(name))
        await target.note(name, UNFINISHED)
    await complete(source, target, name)
    lost = source.unreadable.get(name, 0)
    today = datetime.now(UTC)
    said = f"{await source.count(name)} points imported from local mode on {today:%Y-%m-%d}"
    return f"{said}; {lost} could not be read" if lost else said
