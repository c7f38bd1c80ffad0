"""Runs again whenever something below the sources has changed."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from watchfiles import DefaultFilter, awatch

from mcp_server_qdrant.errors import QdrantMcpError
from mcp_server_qdrant.ingest.sync import Known
from mcp_server_qdrant.ingest.walk import Source

SETTLE_MS = 1600  # changes that follow each other faster are one
STEP_MS = 200
RETRY_SECONDS = 30.0
AGAIN_SECONDS = 900.0  # what happened where nothing could be watched is seen by then


async def follow(
    sources: Sequence[Source],
    run: Callable[[Known | None], Awaitable[Known]],
    failed: Callable[[QdrantMcpError], None],
) -> None:
    """Run now, after every change, a while after a failure, and now and then from scratch.

    `run` takes what the run before knew, None where that has to be read again, and returns what it
    knows. `failed` is told why a run stopped, and may raise to end it all.
    """
    known: Known | None = None
    while True:
        # It watches from here on: what changes during a run makes another.
        change = asyncio.ensure_future(changed(sources))
        try:
            await asyncio.sleep(0)
            patience = AGAIN_SECONDS
            try:
                known = await run(known)
            except QdrantMcpError as error:
                failed(error)
                known, patience = None, RETRY_SECONDS
            await asyncio.wait([change], timeout=patience)
            if change.done():
                change.result()
            else:
                known = None
        finally:
            change.cancel()
            await asyncio.wait([change])


async def changed(sources: Sequence[Source]) -> None:
    """Return after the next burst of changes, or a while later where a source is not there.

    Each time it watches anew, since a file that an editor replaces, or a folder that is made again,
    is no longer the one that was watched. It watches from its first step on.
    """
    paths = [source.path for source in sources]
    if not all(path.exists() for path in paths):  # such a one would be waited for in vain
        await asyncio.sleep(RETRY_SECONDS)
        return
    watching = awatch(
        *paths,
        watch_filter=DefaultFilter(),
        debounce=SETTLE_MS,
        step=STEP_MS,
        ignore_permission_denied=True,
    )
    async with contextlib.aclosing(watching):
        await anext(watching)
