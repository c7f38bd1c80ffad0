"""Looks for much better matches outside the default collections if those have only weak ones.

It is one fast query: a few candidates of each collection, without a second pass.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from mcp_server_qdrant.core.datatypes import SearchPage, Targets
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import cite, escaped, first_few
from mcp_server_qdrant.search.present import LACKING, WEAKLY, is_weak
from mcp_server_qdrant.search.ranking import rank_candidates
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.retrieve import search_candidates
from mcp_server_qdrant.search.understand import (
    SHALLOW,
    Query,
    Understanding,
    embed,
    narrow_legs,
)

SECONDS = 2.0
AHEAD = 0.1  # relevance above the best on the page
MOST = 64  # collections that can be queried in that time
UNSEEN = 'Not all other collections answered in time: collections=["*"] searches them too.'


class Outside(NamedTuple):
    """The collection of the best hit outside, and the lowest relevance that is much better.

    `failed`: not all collections answered. Without a much better hit, `collection` is None.
    """

    collection: str | None = None
    least: float = 0.0
    failed: bool = False


async def better_elsewhere(understanding: Understanding, query: Query, best: Hit | None) -> Outside:
    """Where there is a much better hit than `best` outside the searched collections.

    Nowhere if the request named its collections. Several default collections without a folder's
    scope are all collections, so nothing is outside. Quoted phrases cannot be checked without the
    complete texts.
    """
    request = query.request
    everything = len(query.targets) > 1 and query.scope is None
    if request.collections is not None or request.within or everything or query.exact.phrases:
        return Outside()
    hits, failed = list[Hit](), True
    with suppress(QdrantMcpError, TimeoutError):
        async with asyncio.timeout(min(SECONDS, query.left())):
            hits, failed = await _search_outside(understanding, query)
    found = max(hits, key=lambda hit: hit.relevance, default=None)
    least = max(best.relevance + AHEAD if best else 0.0, request.score_threshold or 0.0)
    if found is None or found.relevance < least or is_weak(found, query.alpha):
        return Outside(failed=failed)
    return Outside(found.collection, least)


def with_elsewhere(
    page: SearchPage, other: SearchPage, searched: Sequence[str], limit: int | None
) -> SearchPage:
    """The page with the results of another page first, which a note marks; `limit` in all."""
    known = {(one.document.collection, one.document.id) for one in page.results}
    found = [
        replace(one, elsewhere=True)
        for one in other.results
        if (one.document.collection, one.document.id) not in known
    ]
    if not found:
        return page
    name = found[0].document.collection
    wanted = escaped(json.dumps([name], ensure_ascii=False))
    which = "Result 1 is" if len(found) == 1 else f"Results 1 to {len(found)} are"
    outside = (
        f"outside {first_few(searched, shown=cite)}"
        if name not in searched
        else "of another project"
    )
    note = f"{which} from elsewhere, {outside}: collections={wanted} searches there."
    kept = [one for one in page.notes if one != page.nothing]
    notes = [
        note,
        *(one for one in other.notes if one.startswith(LACKING)),
        *(one for one in kept if not one.startswith((WEAKLY, LACKING))),
    ]
    results = [*found, *page.results][:limit]
    more = page.more + len(found) + len(page.results) - len(results)
    return replace(page, results=results, notes=notes, more=more, weak=False, nothing=None)


async def _search_outside(understanding: Understanding, query: Query) -> tuple[list[Hit], bool]:
    """The best candidates of the other collections, and whether some of these failed.

    Of many collections the largest ones are asked.
    """
    text = query.request.query
    # Texts of other projects in shared collections are outside too.
    inside = query.scope.own if query.scope else [one.collection for one in query.targets]
    searched = {*inside}
    others = [t for t in await understanding.catalog.resolve(["*"]) if t.collection not in searched]
    largest = sorted(others, key=lambda target: -target.points)[:MOST]
    targets = Targets(narrow_legs(one, query.request.algorithm) for one in largest)
    terms, vectors = await asyncio.gather(
        understanding.terms.weighed(text, targets),
        embed(text, targets, understanding.encode, query.known),
    )
    query = replace(
        query, targets=targets, terms=terms, vectors=vectors, depth=SHALLOW, tags={}, confined={}
    )
    found, statuses = await search_candidates(understanding.queries, query)
    failed = any(one.state in ("failed", "timeout") for one in statuses.values())
    return rank_candidates(found, query), failed
