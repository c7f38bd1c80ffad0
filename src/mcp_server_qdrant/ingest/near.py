"""The memory that a new text nearly repeats."""

from rapidfuzz import fuzz

from mcp_server_qdrant.core.datatypes import Dense, Document, LegQuery, Target
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.qdrant.write.points import Points

LOOKED_AT = 8  # the text itself and its parts may be among them
COSINE = 0.8
# Similarity of the words: with some models all texts have cosines of 0.8.
ALIKE = 70


async def near_memory(
    queries: Queries, points: Points, new: Document, target: Target, dense: Dense
) -> tuple[Document, float] | None:
    """The nearest other memory and its cosine, if it is near; None where that is unknown.

    `dense` is the vector of the new text's first part. Only the collection that is
    written to is searched.
    """
    asked = target, LegQuery(dense, None)
    try:
        answers, _ = await queries.search([asked], depth=LOOKED_AT, condition=None)
        others = (one for answer in answers for one in answer.candidates if one.id != new.id)
        near = {one.id: cosine for one in others if (cosine := one.dense or 0.0) >= COSINE}
        found = {one.id: one for one in await points.by_id(target.collection, [*near])}
    except QdrantMcpError:
        return None
    for known in (found[point] for point in near if point in found):
        own = known.document is not None and known.document == new.document
        in_use = known.chunk == 0 and known.superseded_by is None  # a part may be of an old version
        alike = fuzz.token_set_ratio(known.text.casefold(), new.text.casefold()) >= ALIKE
        if in_use and alike and not own:
            return known, near[known.id]
    return None
