"""A random sample of a collection's texts, read in pages."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import Payload, Target
from mcp_server_qdrant.qdrant.edge.plain import Beginnings
from mcp_server_qdrant.qdrant.paging import pages

MOST_POINTS = 20_000
PAGE = 200
LONGEST = 4_000
TITLES = ("title", "metadata.title")

_RANDOM = models.SampleQuery(sample=models.Sample.RANDOM)


class Sampler:
    """Reads texts and titles, nothing else of a payload."""

    def __init__(
        self, client: AsyncQdrantBase, content_fields: Sequence[str], most: int = MOST_POINTS
    ) -> None:
        self._client = client
        self._fields = tuple(content_fields)
        self._shown = Beginnings(include=[*content_fields, *TITLES], longest=LONGEST)
        self._most = most

    async def texts(self, target: Target) -> AsyncGenerator[list[str]]:
        """Pages of texts with their titles, at most 4,000 characters of each.

        All of a collection of at most 20,000 points, and as many draws from a larger one; what is
        drawn twice counts once.
        """
        drawn = self._all if target.points <= self._most else self._drawn
        async for records in drawn(target.collection):
            yield [text for record in records if (text := self._text(record.payload or {}))]

    async def _all(self, collection: str) -> AsyncGenerator[list[Any]]:
        read = 0
        async for records in pages(self._client, collection, PAGE, with_payload=self._shown):
            yield records
            read += PAGE
            if read >= self._most:
                return  # it has grown meanwhile

    async def _drawn(self, collection: str) -> AsyncGenerator[list[Any]]:
        """A draw of many ids at once would hold up the engine; one of few does not."""
        seen: set[Any] = set()
        for _ in range(-(-self._most // PAGE)):
            answer = await self._client.query_points(
                collection, query=_RANDOM, limit=PAGE, with_payload=self._shown
            )
            yield [point for point in answer.points if point.id not in seen]
            seen.update(point.id for point in answer.points)

    def _text(self, payload: Payload) -> str:
        inside = payload.get("metadata")
        title = payload.get("title") or (inside.get("title") if isinstance(inside, dict) else None)
        text = next((v for k in self._fields if isinstance(v := payload.get(k), str)), "")
        return f"{title}\n{text}"[:LONGEST] if isinstance(title, str) else text[:LONGEST]
