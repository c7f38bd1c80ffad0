"""The memory that a new text nearly repeats."""

from rapidfuzz import fuzz

from mcp_server_qdrant.core.datatypes import Document, Target
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.models import Dense
from mcp_server_qdrant.qdrant.write.points import Points

LOOKED_AT = 8  # the text itself and its parts may be among them
COSINE = 0.8
# Similarity of the words: with some models all texts have cosines of 0.8.
ALIKE = 70


async def nearest(
    points: Points, new: Document, target: Target, vector: Dense
) -> tuple[Document, float] | None:
    """The nearest other memory and its cosine, if it is near; None where that is unknown.

    `vector` is that of the new text's first part.
    """
    try:
        found = await points.nearest(target, vector, LOOKED_AT)
    except QdrantMcpError:
        return None
    for known, cosine in found:
        if cosine >= COSINE and _another(known, new) and _alike(known.text, new.text):
            return known, cosine
    return None


def _another(known: Document, new: Document) -> bool:
    """True for a memory that is in use and not the new one; a part may be of an old version."""
    own = known.document is not None and known.document == new.document
    return not own and known.chunk == 0 and known.superseded_by is None


def _alike(one: str, other: str) -> bool:
    return fuzz.token_set_ratio(one.casefold(), other.casefold()) >= ALIKE
