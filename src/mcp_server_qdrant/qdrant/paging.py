"""Reading a collection page by page."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sized
from typing import Any, TypeVar

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.errors import EngineFailure

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

    def page(offset: Any) -> Awaitable[tuple[list[Any], Any]]:
        return client.scroll(collection, where, limit=size, offset=offset, **shown)

    return paged(page)


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
