"""Reading a collection page by page."""

from collections.abc import AsyncGenerator
from typing import Any

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase


async def pages(
    client: AsyncQdrantBase,
    collection: str,
    size: int,
    where: models.Filter | None = None,
    **shown: Any,
) -> AsyncGenerator[list[Any]]:
    """The matching points in pages of `size`; `shown` says what of them, as `scroll` takes it."""
    offset: Any = None
    while True:
        records, offset = await client.scroll(collection, where, limit=size, offset=offset, **shown)
        yield list(records)
        if offset is None:
            return
