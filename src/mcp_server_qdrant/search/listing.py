"""The newest texts of collections, for a request without a query."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_server_qdrant.core.datatypes import Passage, Result, SearchPage, Status, Target
from mcp_server_qdrant.core.dates import EARLIEST, Listed, Period
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import line
from mcp_server_qdrant.qdrant.read.newest import Newest
from mcp_server_qdrant.qdrant.read.query import in_time
from mcp_server_qdrant.search.present import (
    LINE,
    ROOM,
    SHORT,
    faults,
    names,
    nothing_found,
    undated,
)
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.retrieve import Fetch, told_apart

BEGINNING = 300  # characters of a text

AllListed = Mapping[str, Listed]  # by collection


async def newest_points(
    newest: Newest,
    targets: Sequence[Target],
    condition: Any,
    period: Period | None,
    limit: int,
    seconds: float,
) -> tuple[AllListed, list[Status]]:
    """The newest points of each collection; one that fails is a status."""

    async def listing(target: Target) -> Listed:
        return await newest.listed(target, condition, period, limit)

    answers = await in_time(targets, listing, seconds)
    listed, late = told_apart([target.collection for target in targets], answers)
    return listed, [*(Status(name, "ok") for name in listed), *late]


async def newest_hits(
    fetch: Fetch, listed: AllListed, limit: int, seconds: float
) -> tuple[list[Hit], list[Status]]:
    """The newest of all with their documents; those without a date and superseded ones last."""
    points = [(name, *point) for name, one in listed.items() for point in one.points]
    points.sort(key=lambda point: (point[0], str(point[1])))
    points.sort(key=lambda point: point[2] or EARLIEST, reverse=True)
    newest = [Hit(name, point, 0.0, 0.0, 0.0, None, None) for name, point, _ in points[:limit]]
    hits, late = await fetch.hits(newest, seconds)
    hits.sort(key=lambda hit: hit.document.superseded_by is not None)
    return hits, late


def listing_page(
    hits: Sequence[Hit],
    listed: AllListed,
    statuses: Sequence[Status],
    request: SearchRequest,
    targets: Sequence[Target],
    *,
    dated: bool,
) -> SearchPage:
    """The page of these texts, with their number and how to see older ones.

    `dated`: only texts of some period were asked for.
    """
    full, room = request.mode == "full", BEGINNING
    if request.limit is None and hits:  # else the page may be as long as it was asked for
        room = min(room, max(4 * (ROOM // len(hits) - LINE), SHORT))
    documents = [hit.document for hit in hits]
    results = [
        Result(
            one,
            relevance=None,
            score=0.0,
            passages=() if full else (Passage(line(one.text, room), one, one.section),),
        )
        for one in documents
    ]
    count = sum(one.total for one in listed.values())
    empty = {target.collection for target in targets if not target.dates}
    empty -= {name for name, one in listed.items() if one.total}
    nothing = None if results else nothing_found(request, statuses)
    return SearchPage(
        query=request.query,
        results=results,
        statuses=statuses,
        notes=[
            *faults(statuses),
            *([nothing] if nothing else []),
            *_counted(listed, count, len(documents)),
            *undated(sorted(empty) if dated else ()),
        ],
        more=max(count - len(documents), 0),
        nothing=nothing,
    )


def _counted(listed: AllListed, count: int, shown: int) -> list[str]:
    """The number of texts, and where not all were looked at."""
    if not count:
        return []
    texts = "1 text" if count == 1 else f"{count:,} texts, the newest first"
    texts = f"{shown} of {texts}" if count > shown else texts
    older = " For older ones raise limit, or set until." if count > shown else ""
    without = any(when is None for one in listed.values() for _, when in one.points)
    said = [f"{texts}.{' Those without a date come last.' if without else ''}{older}"]
    if parts := [name for name, one in listed.items() if not one.complete]:
        said.append(f"{names(parts)}: has no index of dates, so that only some were looked at.")
    return said
