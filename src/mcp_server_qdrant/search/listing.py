"""Lists the newest texts, for a request without a query or with only very common words."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcp_server_qdrant.core.datatypes import Document, Passage, Result, SearchPage, Status, Target
from mcp_server_qdrant.core.dates import EARLIEST, NewestPoints, Period
from mcp_server_qdrant.core.exact import Exact, word_boundaries
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.forms import comparable
from mcp_server_qdrant.core.notation import cite, clipped, first_few, plural
from mcp_server_qdrant.qdrant.read.newest import Newest
from mcp_server_qdrant.qdrant.read.query import in_time
from mcp_server_qdrant.search.present import (
    LINE,
    ROOM,
    dedented,
    failure_notes,
    fitting,
    nothing_found,
)
from mcp_server_qdrant.search.ranking import TEXTLESS
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.retrieve import Fetch, lift_void_marks, split_failures

BEFORE = 60  # characters shown before a phrase
UNDATED_SECONDS = 1.0
COMMON = (
    "These words are too common to rank by: here are the newest texts that contain them as written."
)
_WORD = re.compile(r"\w+|[\u2190-\u2bff\U0001f000-\U0001faff]")  # or a symbol or emoji
BEGINNING = 75  # tokens of a text's beginning
LEAST = 12  # tokens of a text's beginning if many are listed
LONGEST = 2_000  # characters that are considered

AllListed = Mapping[str, NewestPoints]  # by collection


async def newest_points(
    newest: Newest,
    targets: Sequence[Target],
    where: Callable[[str], Any],
    period: Period | None,
    limit: int,
    seconds: float,
    phrases: Sequence[re.Pattern[str]] = (),
) -> tuple[AllListed, list[Status]]:
    """The newest points of each collection; a collection that fails becomes a status.

    `where` maps a collection to its filter.
    """

    async def listing(target: Target) -> NewestPoints:
        return await newest.list_newest(target, where(target.collection), period, limit, phrases)

    answers = await in_time(targets, listing, seconds)
    listed, late = split_failures([target.collection for target in targets], answers)
    return listed, [*(Status(name, "ok") for name in listed), *late]


async def undated(
    newest: Newest, targets: Sequence[Target], where: Callable[[str], Any]
) -> list[str]:
    """Notes on texts without a date, which a period leaves out."""

    async def counted(target: Target) -> int:
        return await newest.count_undated(target, where(target.collection))

    answers = await in_time(targets, counted, UNDATED_SECONDS)
    counts, failed = split_failures([target.collection for target in targets], answers)
    count = sum(counts.values())
    said = [f"{plural(count, 'text')} without a date left out by since and until."] if count else []
    if unknown := [one.collection for one in failed]:
        left_out = "texts without a date are left out by since and until."
        said.append(f"{first_few(unknown, shown=cite)}: {left_out}")
    return said


def phrases_of(query: str) -> list[re.Pattern[str]]:
    """Patterns for the quoted phrases of a query, or for the whole query.

    They match the words in order, with any separators, in a text normalised by `compared`.
    """
    rows = [_WORD.findall(one) for one in Exact.in_query(query).phrases or (comparable(query),)]
    found = []
    for row in filter(None, rows):
        before, after = word_boundaries(row[0][0] + row[-1][-1])
        found.append(re.compile(before + r"\W+".join(map(re.escape, row)) + after))
    return found


async def newest_hits(
    fetch: Fetch, listed: AllListed, limit: int, seconds: float
) -> tuple[list[Hit], list[Status]]:
    """The newest of all with their documents; undated and superseded ones last."""
    points = [(name, *point) for name, one in listed.items() for point in one.points]
    points.sort(key=lambda point: (point[0], str(point[1])))
    points.sort(key=lambda point: point[2] or EARLIEST, reverse=True)
    newest = [Hit(name, point, 0.0, 0.0, 0.0, None, None) for name, point, _ in points[:limit]]
    hits, late = await fetch.hits(newest, seconds)
    hits = await lift_void_marks(fetch, hits, seconds)
    hits.sort(key=lambda hit: hit.document.heir is not None)
    return [hit for hit in hits if not hit.document.textless] or hits[:TEXTLESS], late


def listing_page(
    hits: Sequence[Hit],
    listed: AllListed,
    statuses: Sequence[Status],
    request: SearchRequest,
    phrases: Sequence[re.Pattern[str]] = (),
    *,
    scoped: bool = False,
) -> SearchPage:
    """The page of these texts, with their total number and how to list older ones."""
    full = request.mode == "full"
    room = BEGINNING
    if request.limit is None and hits:  # with a limit the page may be longer
        room = min(room, max(ROOM // len(hits) - LINE, LEAST))
    results = [
        Result(
            hit.document,
            relevance=None,
            score=0.0,
            passages=() if full else (_passage(hit.document, room, phrases),),
            as_of=hit.as_of,
        )
        for hit in hits
    ]
    count = sum(one.total for one in listed.values())
    nothing = None if results else nothing_found(request, statuses, scoped=scoped)
    return SearchPage(
        query=request.query,
        results=results,
        statuses=statuses,
        notes=[
            *failure_notes(statuses),
            *([nothing] if nothing else []),
            *([COMMON] if phrases and results else []),
            *_counted(listed, count, len(hits)),
        ],
        more=max(count - len(hits), 0),
        nothing=nothing,
    )


def _passage(one: Document, room: int, phrases: Sequence[re.Pattern[str]]) -> Passage:
    """The first lines of a text, or those around the first phrase; `room` in tokens."""
    found = next(filter(None, (phrase.search(comparable(one.text)) for phrase in phrases)), None)
    start = max(found.start() - BEFORE, 0) if found and found.end() > 4 * room else 0
    text = dedented(one.text[start : start + LONGEST])
    return Passage(clipped(text, fitting(text, room, 4 * room)), one, one.section)


def _counted(listed: AllListed, count: int, shown: int) -> list[str]:
    """Notes on the number of texts, and on collections that were listed only in part."""
    if not count:
        return []
    texts = "1 text" if count == 1 else f"{count:,} texts, the newest first"
    texts = f"{shown} of {texts}" if count > shown else texts
    older = " For older ones raise limit, or set until." if count > shown else ""
    without = any(when is None for one in listed.values() for _, when in one.points)
    said = [f"{texts}.{' Those without a date come last.' if without else ''}{older}"]
    if parts := [name for name, one in listed.items() if not one.complete]:
        unread = "it has no index for that, so only some texts were examined."
        said.append(f"{first_few(parts, shown=cite)}: {unread}")
    return said
