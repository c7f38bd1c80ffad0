"""Backfills the dense vectors of points that were stored while no model was available."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mcp_server_qdrant.core.datatypes import Dense, Document, PointId, Target
from mcp_server_qdrant.core.errors import (
    EncoderUnavailable,
    EngineFailure,
    QdrantMcpError,
    Unforeseen,
    contained,
)
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.ingest.encoding import encoded_text
from mcp_server_qdrant.ingest.writer import Encode, try_model
from mcp_server_qdrant.qdrant.payload import PENDING_KEY
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.write.points import Points

BATCH = 32
RETRY_SECONDS = 30.0

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Backfill:
    """Fills pending points in the background, until `run` is cancelled.

    Also removes orphans of interrupted writes. `pace` throttles a model.
    """

    catalog: Catalog
    points: Points
    encoders: Registry
    pace: Callable[[Encode], Encode] = lambda encode: encode
    _wanted: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    filling: set[str] = field(default_factory=set, init=False)  # collections being filled
    # Points of each collection that the model rejects; they are retried after a restart.
    _refused: dict[str, set[PointId]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.wake()

    def wake(self) -> None:
        """Announce new pending points."""
        self._wanted.set()

    async def run(self) -> None:
        """Fill what earlier runs left, then whenever `wake` is called. Raises Unforeseen."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.fill_all()
            except Unforeseen:
                self._wanted.set()
                raise
            except QdrantMcpError as error:
                logger.info("Pending vectors wait: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._wanted.set()

    async def fill_all(self) -> int:
        """Fill all pending points and return their number.

        An error in one collection does not stop the others; it is raised at the end.
        """
        filled, failure = 0, None
        for name in await self.catalog.names():
            try:
                with contained():
                    filled += await self._fill(await self.catalog.target(name))
                    if self.catalog.is_ours(name):
                        await self.points.sweep(name)
            except QdrantMcpError as error:
                failure = error
            finally:
                self.filling.discard(name)
        if failure is not None:
            raise failure
        return filled

    async def _fill(self, target: Target) -> int:
        if target.failed:
            raise EngineFailure(target.note)
        if target.dense is None or not self.catalog.ours_or_indexed(target.collection, PENDING_KEY):
            return 0
        filled, refused = 0, self._refused.setdefault(target.collection, set())
        tried = set[tuple[PointId, str]]()
        while True:
            found = await self.points.pending(target.collection, BATCH + len(refused))
            chunks = [chunk for chunk in found if chunk.id not in refused]
            if not chunks:
                break
            encoder = self.encoders.start_encoder(target.dense.model)
            await encoder.ready(RETRY_SECONDS)
            encode = self.pace(encoder.encode_documents)
            made = await _encoded(encode, chunks, refused)
            same = set(await self.points.find_unchanged([one for one, _ in made]))
            made = [(one, vector) for one, vector in made if one.id in same]
            await self.points.fill_pending(target, made)
            self.filling.add(target.collection)
            filled += len(made)
            # A point that is still pending after two attempts would loop forever.
            refused |= {one.id for one, _ in made if (one.id, str(one.revision)) in tried}
            tried |= {(one.id, str(one.revision)) for one, _ in made}
        return filled


async def _encoded(
    encode: Encode, chunks: Sequence[Document], refused: set[PointId]
) -> list[tuple[Document, Dense]]:
    """The chunks with their vectors. Those that the model rejects are added to `refused`.

    Raises EncoderUnavailable if the model rejects every text.
    """
    try:
        vectors = await encode([encoded_text(chunk) for chunk in chunks])
        return list(zip(chunks, vectors, strict=True))
    except EncoderUnavailable:
        await try_model(encode)
    made: list[tuple[Document, Dense]] = []
    for chunk in chunks:
        try:
            made += zip([chunk], await encode([encoded_text(chunk)]), strict=True)
        except EncoderUnavailable as error:
            refused.add(chunk.id)
            logger.warning("A text of %r gets no vector: %s", chunk.collection, error)
    return made
