"""What a collection knows of the files that its points are of: the state of ingest and sync."""

from collections.abc import Iterable, Sequence
from typing import Any

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import Payload, PointId
from mcp_server_qdrant.qdrant.payload import FILE_KEY, SOURCE_KEY

PAGE = 1000
DELETED_AT_ONCE = 1000


class Files:
    """Reads and mends `doc.file` of points; all raise our errors."""

    def __init__(self, client: AsyncQdrantBase) -> None:
        self._client = client

    async def scan(self, collection: str, sources: Iterable[str]) -> list[tuple[PointId, Payload]]:
        """Every point of a file of these sources: its id, and `doc` of its payload."""
        of = models.FieldCondition(key=SOURCE_KEY, match=models.MatchAny(any=list(sources)))
        found: list[tuple[PointId, Payload]] = []
        offset: Any = None
        while True:
            records, offset = await self._client.scroll(
                collection,
                models.Filter(must=[of]),
                limit=PAGE,
                offset=offset,
                with_payload=["doc"],
            )
            found += [(record.id, (record.payload or {}).get("doc", {})) for record in records]  # type: ignore[misc]
            if offset is None:
                return found

    async def touch(self, collection: str, points: Sequence[PointId], mtime: int) -> None:
        """Note when the file of these points was written last."""
        await self._client.set_payload(
            collection, {"mtime": mtime}, points=list(points), key=FILE_KEY, wait=True
        )

    async def drop(
        self, collection: str, points: Sequence[PointId], contents: Iterable[str]
    ) -> None:
        """Remove these points as far as they are still of a file with these contents.

        What another run has written to them meanwhile stays.
        """
        old = models.FieldCondition(
            key=f"{FILE_KEY}.hash", match=models.MatchAny(any=sorted(contents))
        )
        for first in range(0, len(points), DELETED_AT_ONCE):
            these = models.HasIdCondition(has_id=list(points[first : first + DELETED_AT_ONCE]))
            where = models.Filter(must=[these, old])
            await self._client.delete(collection, models.FilterSelector(filter=where), wait=True)
