"""Reading a collection page by page."""

from collections.abc import AsyncGenerator
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.qdrant.engine import Engine, Point

ENDLESS = "Qdrant's pages do not end: they lead back to one that was read, or hold nothing."


async def pages(
    client: Engine,
    collection: str,
    size: int,
    where: models.Filter | None = None,
    **shown: Any,
) -> AsyncGenerator[list[Point]]:
    """The matching points in pages of `size`; `shown` says what of them, as `scroll` takes it.

    Raises EngineFailure where the pages do not end.
    """
    seen, offset = set[PointId](), None
    while True:
        found, offset = await client.scroll(collection, where, limit=size, offset=offset, **shown)
        yield found
        if offset is None:
            return
        if offset in seen or not found:
            raise EngineFailure(ENDLESS)
        seen.add(offset)
