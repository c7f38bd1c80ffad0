"""The points that a caller's filter matches: how many, which, and a few of them to look at."""

from collections.abc import Mapping, Sequence
from typing import Any

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import Document, PointId
from mcp_server_qdrant.qdrant.filters import parse
from mcp_server_qdrant.qdrant.payload import read

PAGE = 1_000


class Selection:
    """Points by a filter in REST form; an empty one matches all. Raises InvalidFilter."""

    def __init__(self, client: AsyncQdrantBase, content_fields: Sequence[str]) -> None:
        self._client = client
        self._content_fields = tuple(content_fields)

    async def counted(
        self, collection: str, where: Mapping[str, Any], examples: int
    ) -> tuple[int, list[Document]]:
        """The exact number of matching points, and so many of them."""
        condition = parse(where)
        found = await self._client.count(collection, count_filter=condition, exact=True)
        records, _ = await self._client.scroll(
            collection, condition, limit=examples, with_payload=True
        )
        documents = [
            read(collection, record.id, record.payload, self._content_fields)  # type: ignore[arg-type]
            for record in records
        ]
        return found.count, documents

    async def ids(self, collection: str, where: Mapping[str, Any], limit: int) -> list[PointId]:
        """The ids of the matching points, at most `limit`."""
        condition, ids, offset = parse(where), list[PointId](), None
        while len(ids) < limit:
            records, offset = await self._client.scroll(
                collection,
                condition,
                limit=min(PAGE, limit - len(ids)),
                offset=offset,
                with_payload=False,
            )
            ids += [record.id for record in records]  # type: ignore[misc]
            if offset is None:
                break
        return ids
