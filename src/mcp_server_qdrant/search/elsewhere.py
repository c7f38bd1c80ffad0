"""Far better matches in other collections, where the default one has weak ones or none.

One quick look: a few candidates of each, without payloads and without a second pass.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace

from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import called, escaped
from mcp_server_qdrant.search.present import weak
from mcp_server_qdrant.search.ranking import candidates
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.retrieve import candidates_of
from mcp_server_qdrant.search.understand import (
    NO_VECTORS,
    SHALLOW,
    Query,
    Understanding,
    embed,
    narrowed,
)

SECONDS = 0.5
AHEAD = 0.1  # of the page's best
MOST = 64  # collections: so many can be asked in that time


async def better_elsewhere(
    understanding: Understanding, query: Query, best: Hit | None
) -> list[str]:
    """The sentence on the collection with the best hit, where that is far better than `best`.

    None where the look fails or takes too long, or where a search named its collections. Several
    default collections are all there are, and only whole texts tell who has a quoted phrase.
    """
    request = query.request
    if request.collections is not None or len(query.targets) > 1 or query.exact.phrases:
        return []
    hits: list[Hit] = []
    with suppress(QdrantMcpError, TimeoutError):
        async with asyncio.timeout(min(SECONDS, query.left())):
            hits = await _look(understanding, query)
    found = max(hits, key=lambda hit: hit.relevance, default=None)
    least = max(best.relevance + AHEAD if best else 0.0, request.score_threshold or 0.0)
    if found is None or found.relevance < least or weak(found, query.alpha):
        return []
    name = found.collection
    wanted = escaped(json.dumps([name], ensure_ascii=False))
    return [
        f"Better elsewhere: {called(name)} has relevance {found.relevance:.2f}. "
        f"Search it with collections={wanted}."
    ]


async def _look(understanding: Understanding, query: Query) -> list[Hit]:
    """The best candidates of the other collections; of many, of the largest ones."""
    text, searched = query.request.query, {target.collection for target in query.targets}
    others = [t for t in await understanding.catalog.resolve(["*"]) if t.collection not in searched]
    largest = sorted(others, key=lambda target: -target.points)[:MOST]
    targets = [narrowed(one, query.request.algorithm) for one in largest]
    known = query.vectors if query.terms.query == text else NO_VECTORS  # else it was corrected
    terms, vectors = await asyncio.gather(
        understanding.terms.weighed(text, targets),
        embed(text, targets, understanding.encode, known),
    )
    query = replace(query, targets=targets, terms=terms, vectors=vectors, depth=SHALLOW, tags={})
    found, _ = await candidates_of(understanding.queries, query)
    return candidates(found, query)
