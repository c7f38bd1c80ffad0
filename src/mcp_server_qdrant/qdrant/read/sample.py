"""A random sample of a collection's texts, read in pages."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import Payload, Target
from mcp_server_qdrant.qdrant.read.draw import at_random

MOST_POINTS = 20_000
PAGE = 200
LONGEST = 4_000
TITLES = ("title", "metadata.title")


class Sampler:
    """Reads texts and titles, nothing else of a payload."""

    def __init__(self, client: AsyncQdrantBase, content_fields: Sequence[str]) -> None:
        self._client = client
        self._fields = tuple(content_fields)
        self._shown = [*content_fields, *TITLES]

    async def texts(self, target: Target) -> AsyncGenerator[list[str]]:
        """Pages of texts with their titles, at most 4,000 characters of each.

        All of a collection of at most 20,000 points, and as many of a larger one.
        """
        read = 0
        found = at_random(self._client, target, MOST_POINTS, PAGE, with_payload=self._shown)
        async with aclosing(found):
            async for records in found:
                yield [text for record in records if (text := self._text(record.payload or {}))]
                read += len(records)
                if read >= MOST_POINTS:
                    return  # it has grown meanwhile

    def _text(self, payload: Payload) -> str:
        inside = payload.get("metadata")
        title = payload.get("title") or (inside.get("title") if isinstance(inside, dict) else None)
        text = next((v for k in self._fields if isinstance(v := payload.get(k), str)), "")
        return f"{title}\n{text}"[:LONGEST] if isinstance(title, str) else text[:LONGEST]
