"""Tells when something below the sources has changed."""

from collections.abc import AsyncIterator, Sequence

from watchfiles import DefaultFilter, awatch

from mcp_server_qdrant.ingest.walk import Source

SETTLE_MS = 1600  # changes that follow each other faster are one
STEP_MS = 200


async def changes(sources: Sequence[Source]) -> AsyncIterator[None]:
    """One item per burst of changes, from the first step of the iteration on."""
    async for _ in awatch(
        *(source.path for source in sources),
        watch_filter=DefaultFilter(),
        debounce=SETTLE_MS,
        step=STEP_MS,
        ignore_permission_denied=True,
        raise_interrupt=False,
    ):
        yield
