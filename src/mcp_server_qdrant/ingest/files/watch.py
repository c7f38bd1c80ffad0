"""Runs again whenever something below the sources has changed."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic

from watchfiles import awatch

from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError, contained
from mcp_server_qdrant.ingest.files.state import Report
from mcp_server_qdrant.ingest.files.walk import Source, walk_all

RETRY_SECONDS = 30.0
AGAIN_SECONDS = 900.0  # what happened where nothing could be watched is seen by then
# Elsewhere all below a folder would be watched, whatever its links lead to.
WHOLE = sys.platform in ("darwin", "win32")


async def follow(
    sources: Sequence[Source],
    run: Callable[[Report | None], Awaitable[Report]],
    failed: Callable[[QdrantMcpError], None],
    selection: Selection = Selection(),  # noqa: B008 - it is frozen
) -> None:
    """Run now, after every change, a while after a failure, and now and then from scratch.

    `run` takes the report of the run before, None where all has to be looked at again, and returns
    its own. `failed` gets the error that stopped a run; if it raises, no further run begins.
    Folders that the selection keeps out are not watched.
    """
    before: Report | None = None
    while True:
        places = await asyncio.to_thread(watched, sources, selection)
        # It watches from here on: what changes during a run makes another.
        change = asyncio.ensure_future(changed(places))
        try:
            await asyncio.sleep(0)
            patience, again, began = AGAIN_SECONDS, before is not None, monotonic()
            try:
                before = await run(before)
            except QdrantMcpError as error:
                failed(error)
                before, patience = None, RETRY_SECONDS
            await asyncio.sleep(rest(monotonic() - began) if again else 0.0)
            await asyncio.wait([change], timeout=patience)
            if change.done():
                change.result()
            else:
                before = None
        finally:
            change.cancel()
            await asyncio.wait([change])


def rest(took: float) -> float:
    """Seconds of rest after a run that took so long: sessions are being written all the time."""
    return min(3 * took, 60.0)


def watched(sources: Sequence[Source], selection: Selection) -> list[Path]:
    """The folders and files to watch; none where a source is not there."""
    paths = [source.path for source in sources]
    if not all(map(os.path.exists, paths)):
        return []
    single = [source.path for source in sources if not source.folder]
    return paths if WHOLE else [*single, *walk_all(sources, selection).folders]


async def changed(places: Sequence[Path]) -> None:
    """Return after the next burst of changes, or a while later where there is nothing to watch.

    Each call starts a new watch: a file that an editor replaced, or a folder that was made again,
    is no longer the one that was watched. It watches from its first step on.
    """
    if not places:
        await asyncio.sleep(RETRY_SECONDS)
        return
    if not all(map(os.path.exists, places)):  # one that went would be waited for in vain
        return
    with contained(lambda fault: BackendError(f"Changes cannot be watched: {fault}.")):
        watching = awatch(*places, ignore_permission_denied=True, recursive=WHOLE)
        async with contextlib.aclosing(watching):
            await anext(watching)
