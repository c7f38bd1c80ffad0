"""The memory that a new text nearly repeats."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from mcp_server_qdrant.core.datatypes import (
    Document,
    LegQuery,
    Payload,
    PointId,
    Target,
)
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.models import Dense
from mcp_server_qdrant.qdrant.read.query import Queries

LOOKED_AT = 8  # the text itself and its parts may be among them
COSINE = 0.8
# Similarity of the words: with some models all texts have cosines of 0.8.
ALIKE = 70


@dataclass(frozen=True, slots=True)
class Near:
    """Compares texts by the vectors that they are stored with.

    `queries` read what the caller may write; `read` makes a Document of a point.
    """

    queries: Queries
    read: Callable[[str, PointId, Payload | None], Document]

    async def to(
        self, new: Document, target: Target, dense: Dense | None
    ) -> tuple[Document, float] | None:
        """The nearest other memory and its cosine, if it is near; None where that is unknown.

        `dense` is the vector of the new text's first part.
        """
        if dense is None:
            return None
        asked = target, LegQuery(dense, None)
        try:
            (answer,) = await self.queries.search([asked], depth=LOOKED_AT, condition=None)
        except QdrantMcpError:
            return None
        if isinstance(answer, QdrantMcpError):
            return None
        candidates, cosines, *_ = answer
        near = [one.id for one in candidates if cosines.get(one.id, 0.0) >= COSINE]
        payloads = await self._payloads(target, near)
        for point in near:
            known = self.read(target.collection, point, payloads.get(point))
            if _another(known, new) and _alike(known.text, new.text):
                return known, cosines[point]
        return None

    async def _payloads(
        self, target: Target, points: Sequence[PointId]
    ) -> Mapping[PointId, Payload]:
        (answer,) = await self.queries.payloads([(target, points)]) if points else ({},)
        return {} if isinstance(answer, QdrantMcpError) else answer


def _another(known: Document, new: Document) -> bool:
    """True for a memory that is in use and not the new one; a part may be of an old version."""
    own = known.document is not None and known.document == new.document
    return not own and known.chunk == 0 and known.superseded_by is None


def _alike(one: str, other: str) -> bool:
    return fuzz.token_set_ratio(one.casefold(), other.casefold()) >= ALIKE
