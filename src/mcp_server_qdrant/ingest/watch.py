"""Runs again whenever something below the sources has changed."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

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
    async with contextlib.aclosing(changes(sources)) as bursts:
        # It watches from here on: what changes during a run makes another.
        change = asyncio.ensure_future(anext(bursts))
        try:
            await asyncio.sleep(0)
            known: Known | None = None
            while True:
                patience = AGAIN_SECONDS
                try:
                    known = await run(known)
                except QdrantMcpError as error:
                    failed(error)
                    known, patience = None, RETRY_SECONDS
                await asyncio.wait([change], timeout=patience)
                if change.done():
                    change.result()
                    change = asyncio.ensure_future(anext(bursts))
                else:
                    known = None
        finally:
            change.cancel()
            await asyncio.wait([change])


async def changes(sources: Sequence[Source]) -> AsyncGenerator[None, None]:
    """One item per burst of changes, from the first step of the iteration on."""
    async for _ in awatch(
        *(source.path for source in sources),
        watch_filter=DefaultFilter(),
        debounce=SETTLE_MS,
        step=STEP_MS,
        ignore_permission_denied=True,
    ):
        yield
