"""The tags of a collection, by Qdrant's facets."""

import asyncio
from collections.abc import Callable, Sequence

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import TAG_KEYS
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.payload import WRITERS


class TagFacets:
    """The tags under `tags` and `metadata.tags`.

    `indexed` says whether a collection has an index of a key. Without one a server refuses to
    count and the embedded engine would read every payload: such a key is not asked for.
    """

    def __init__(self, client: AsyncQdrantBase, indexed: Callable[[str, str], bool]) -> None:
        self._client = client
        self._indexed = indexed

    async def tags(self, collection: str, limit: int) -> list[tuple[str, str]]:
        """The `limit` most frequent values of each key, as (key, value)."""
        return await self._of(TAG_KEYS, collection, limit)

    async def writers(self, collection: str, limit: int) -> list[str]:
        """The callers and clients that stored most there."""
        return [value for _, value in await self._of(WRITERS, collection, limit)]

    async def _of(
        self, wanted: Sequence[str], collection: str, limit: int
    ) -> list[tuple[str, str]]:
        keys = [key for key in wanted if self._indexed(collection, key)]
        found = await asyncio.gather(*(self._values(collection, key, limit) for key in keys))
        return [(key, value) for key, values in zip(keys, found, strict=True) for value in values]

    async def _values(self, collection: str, key: str, limit: int) -> list[str]:
        try:
            response = await self._client.facet(collection, key, limit=limit)
        except RequestError:
            return []  # an index of another kind, or a server that has no facets
        return [hit.value for hit in response.hits if isinstance(hit.value, str)]
