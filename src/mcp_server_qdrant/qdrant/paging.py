"""Reading a collection page by page."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sized
from functools import partial
from typing import Any, TypeVar

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.errors import AnswerTooLarge, EngineFailure

P = TypeVar("P", bound=Sized)
ENDLESS = "Qdrant's pages do not end: they lead back to one that was read, or hold nothing."


def pages(
    client: AsyncQdrantBase,
    collection: str,
    size: int,
    where: models.Filter | None = None,
    **shown: Any,
) -> AsyncGenerator[list[Any]]:
    """The matching points in pages of `size`; `shown` says what of them, as `scroll` takes it."""
    return paged(partial(page, client, collection, size, where=where, **shown))


async def page(
    client: AsyncQdrantBase,
    collection: str,
    size: int,
    offset: Any,
    where: models.Filter | None = None,
    **shown: Any,
) -> tuple[list[Any], Any]:
    """A page of at most `size` points, fewer where those are too large, and the next offset.

    Raises AnswerTooLarge for a point that is too large by itself.
    """
    try:
        records, following = await client.scroll(
            collection, where, limit=size, offset=offset, **shown
        )
    except AnswerTooLarge:
        if size == 1:
            raise
        return await page(client, collection, size // 2, offset, where, **shown)
    return list(records), following


async def paged(read: Callable[[Any], Awaitable[tuple[P, Any]]]) -> AsyncGenerator[P]:
    """The pages that `read` gives, from no offset to the last. Raises EngineFailure."""
    seen, offset = set(), None
    while True:
        found, offset = await read(offset)
        yield found
        if offset is None:
            return
        if offset in seen or not found:
            raise EngineFailure(ENDLESS)
        seen.add(offset)
