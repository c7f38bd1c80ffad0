"""Reading a collection page by page."""

from collections.abc import AsyncGenerator
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.qdrant.engine import Engine, Point

ENDLESS = "Qdrant's paging never ends: it returned a page twice, or an empty page."


async def pages(
    client: Engine, collection: str, size: int, where: models.Filter | None = None, **shown: Any
) -> AsyncGenerator[list[Point]]:
    """The matching points in pages of `size`; `shown` are arguments of `scroll`.

    Raises EngineFailure if the pages never end.
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
