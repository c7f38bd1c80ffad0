"""The newest texts, for a request without a query, or with words too common to be ranked."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_server_qdrant.core.datatypes import Document, Passage, Result, SearchPage, Status, Target
from mcp_server_qdrant.core.dates import EARLIEST, Listed, Period
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import amount, clipped
from mcp_server_qdrant.qdrant.read.newest import Newest
from mcp_server_qdrant.qdrant.read.query import in_time
from mcp_server_qdrant.search.present import (
    LINE,
    ROOM,
    dedented,
    faults,
    fitting,
    names,
    nothing_found,
)
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.retrieve import Fetch, told_apart

BEFORE = 60  # characters before a phrase
UNDATED_SECONDS = 1.0
COMMON = "Words so common do not rank: these are the newest texts that have them as written."
_WORD = re.compile(r"\w+|[\u2190-\u2bff\U0001f000-\U0001faff]")  # or a picture
BEGINNING = 75  # tokens of a text
LEAST = 12  # the same, of many texts
LONGEST = 2_000  # characters of it that are looked at

AllListed = Mapping[str, Listed]  # by collection


async def newest_points(
    newest: Newest,
    targets: Sequence[Target],
    condition: Any,
    period: Period | None,
    limit: int,
    seconds: float,
    phrases: Sequence[re.Pattern[str]] = (),
) -> tuple[AllListed, list[Status]]:
    """The newest points of each collection; one that fails is a status."""

    async def listing(target: Target) -> Listed:
        return await newest.listed(target, condition, period, limit, phrases)

    answers = await in_time(targets, listing, seconds)
    listed, late = told_apart([target.collection for target in targets], answers)
    return listed, [*(Status(name, "ok") for name in listed), *late]


async def undated(newest: Newest, targets: Sequence[Target], condition: Any) -> list[str]:
    """The sentences on texts that a period left out since they have no date."""

    async def counted(target: Target) -> int:
        return await newest.undated(target, condition)

    answers = await in_time(targets, counted, UNDATED_SECONDS)
    counts, failed = told_apart([target.collection for target in targets], answers)
    count = sum(counts.values())
    said = [f"{amount(count, 'text')} without a date left out by since and until."] if count else []
    if unknown := [one.collection for one in failed]:
        said.append(f"{names(unknown)}: texts without a date are left out by since and until.")
    return said


def phrases_of(query: str) -> list[re.Pattern[str]]:
    """The quoted phrases of a query, or the whole of it: its words in a row, however separated."""
    rows = [_WORD.findall(one) for one in Exact.in_query(query).phrases or (query,)]
    patterns = [r"\W+".join(map(re.escape, row)) for row in rows]
    return [re.compile(rf"(?<!\w){one}(?!\w)", re.IGNORECASE) for one in patterns if one]


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
    phrases: Sequence[re.Pattern[str]] = (),
) -> SearchPage:
    """The page of these texts, with their number and how to see older ones."""
    full, documents = request.mode == "full", [hit.document for hit in hits]
    room = BEGINNING
    if request.limit is None and hits:  # else the page may be as long as it was asked for
        room = min(room, max(ROOM // len(hits) - LINE, LEAST))
    results = [
        Result(
            one,
            relevance=None,
            score=0.0,
            passages=() if full else (_passage(one, room, phrases),),
        )
        for one in documents
    ]
    count = sum(one.total for one in listed.values())
    nothing = None if results else nothing_found(request, statuses)
    return SearchPage(
        query=request.query,
        results=results,
        statuses=statuses,
        notes=[
            *faults(statuses),
            *([nothing] if nothing else []),
            *([COMMON] if phrases and results else []),
            *_counted(listed, count, len(documents)),
        ],
        more=max(count - len(documents), 0),
        nothing=nothing,
    )


def _passage(one: Document, room: int, phrases: Sequence[re.Pattern[str]]) -> Passage:
    """The lines with which a text begins, or those around the first phrase; `room` in tokens."""
    found = next(filter(None, (phrase.search(one.text) for phrase in phrases)), None)
    start = max(found.start() - BEFORE, 0) if found and found.end() > 4 * room else 0
    text = dedented(one.text[start : start + LONGEST])
    return Passage(clipped(text, fitting(text, room, 4 * room)), one, one.section)


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
        said.append(f"{names(parts)}: it has no index for that, so that only some were looked at.")
    return said
