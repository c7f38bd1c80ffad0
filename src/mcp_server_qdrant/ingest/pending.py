"""Points that were stored while there was no model get their dense vector later."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from mcp_server_qdrant.datatypes import Document, PointId, Target
from mcp_server_qdrant.errors import QdrantMcpError
from mcp_server_qdrant.ingest.store import Encoders, encoded_text

BATCH = 32
RETRY_SECONDS = 30.0

logger = logging.getLogger(__name__)


class Collections(Protocol):
    """Where pending points may be."""

    async def names(self) -> Sequence[str]:
        """All visible collections."""

    async def target(self, name: str) -> Target:
        """How one is searched."""

    def has_pending_index(self, name: str) -> bool:
        """Whether pending points were ever written there."""


class Points(Protocol):
    """What reads and fills them."""

    async def pending(self, collection: str, limit: int) -> list[Document]:
        """Points without their dense vector."""

    async def fill(self, target: Target, vectors: Mapping[PointId, Sequence[float]]) -> None:
        """Write the vectors, take the mark off."""


class Backfill:
    """Fills pending points in the background, from `run` until it is cancelled."""

    def __init__(self, collections: Collections, points: Points, encoders: Encoders) -> None:
        self._collections = collections
        self._points = points
        self._encoders = encoders
        self._wanted = asyncio.Event()
        self._wanted.set()

    def wake(self) -> None:
        """There are new pending points."""
        self._wanted.set()

    async def run(self) -> None:
        """Fill what earlier runs left, then what `wake` tells of."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.fill_all()
            except QdrantMcpError as error:
                logger.info("Pending vectors wait: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._wanted.set()

    async def fill_all(self) -> int:
        """Fill every pending point; returns how many. Raises what stops it, to be tried again."""
        filled = 0
        for name in await self._collections.names():
            target = await self._collections.target(name)
            if target.dense is not None and self._collections.has_pending_index(name):
                filled += await self._fill(target)
        return filled

    async def _fill(self, target: Target) -> int:
        assert target.dense is not None
        filled = 0
        while chunks := await self._points.pending(target.collection, BATCH):
            encoder = self._encoders.of(target.dense.model)
            await encoder.ready(RETRY_SECONDS)
            vectors = await encoder.encode_documents([encoded_text(chunk) for chunk in chunks])
            ids = [chunk.id for chunk in chunks]
            await self._points.fill(target, dict(zip(ids, vectors, strict=True)))
            filled += len(chunks)
        return filled
