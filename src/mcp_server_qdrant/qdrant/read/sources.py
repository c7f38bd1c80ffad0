"""The files that a collection's points are of: the state of ingest and sync."""

from collections.abc import Iterable, Sequence

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import Payload, PointId
from mcp_server_qdrant.qdrant.filters import among
from mcp_server_qdrant.qdrant.paging import pages
from mcp_server_qdrant.qdrant.payload import FILE_KEY, SOURCE_KEY

PAGE = 1000
DELETED_AT_ONCE = 1000


class Files:
    """Reads `doc.file` of points, and removes those of files that are gone."""

    def __init__(self, client: AsyncQdrantBase) -> None:
        self._client = client

    async def scan(self, collection: str, sources: Iterable[str]) -> list[tuple[PointId, Payload]]:
        """Every point of a file of these sources: its id, and `doc` of its payload."""
        where = models.Filter(must=[_any(SOURCE_KEY, sources)])
        found = pages(self._client, collection, PAGE, where, with_payload=["doc"])
        return [
            (record.id, (record.payload or {}).get("doc", {}))
            async for page in found
            for record in page
        ]

    async def drop(
        self, collection: str, points: Sequence[PointId], contents: Iterable[str]
    ) -> None:
        """Remove these points as far as they are still of a file with these contents.

        What another run has written to them meanwhile stays.
        """
        old = _any(f"{FILE_KEY}.hash", sorted(contents))
        for first in range(0, len(points), DELETED_AT_ONCE):
            these = among(points[first : first + DELETED_AT_ONCE])
            await self._client.delete(collection, models.Filter(must=[these, old]))


def _any(key: str, values: Iterable[str]) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))
