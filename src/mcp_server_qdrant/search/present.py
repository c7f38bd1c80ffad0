"""Hits -> the page that is shown: passages and notes."""

from collections.abc import Iterable, Mapping, Sequence

from mcp_server_qdrant.core.datatypes import (
    Document,
    Hit,
    Passage,
    PointId,
    Result,
    SearchPage,
    Status,
    Target,
    Why,
)
from mcp_server_qdrant.core.dates import Period
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import LINES, SearchRequest
from mcp_server_qdrant.core.notation import called, every, line, some
from mcp_server_qdrant.core.telemetry import Answer
from mcp_server_qdrant.core.tokens import tokens
from mcp_server_qdrant.search.doubt import absent, doubt, lost, unfound
from mcp_server_qdrant.search.explain import Ranks, ranks_of, why
from mcp_server_qdrant.search.query import ROOM, Listing, Query, Ranked, Retrieved
from mcp_server_qdrant.search.quotes import Words
from mcp_server_qdrant.search.texts import Texts
from mcp_server_qdrant.search.worth import by_worth

NOTES = 24  # tokens of a page for the notes
EACH = 60  # tokens of a page for each result that the caller asked for, where that is more
OWN = 250  # the same for each passage of the one text that is searched
HEAD = 10  # tokens of a heading beside the names in it
LINE = 20  # about the tokens of a result without a quote
BEGINNING = 300  # characters of a text in a list of the newest
NAMED = 60  # characters of a name in a heading
SIZE = 700  # characters of a quote at most
SHORT = 45  # tokens: less room is left alone
NEARLY = 0.5  # of the relevance of its best: then another part of a text fits too


def present(
    ranked: Ranked,
    found: Retrieved,
    query: Query,
    statuses: Sequence[Status],
    texts: Texts,
    room: int = ROOM,
) -> SearchPage:
    """The page of the best hits, as many as the query's limit; `room` in tokens."""
    request, shown = query.request, ranked.hits[: query.limit]
    full = request.mode == "full"
    quoted = [()] * len(shown) if full else _quoted(shown, query, texts, room)
    ranks = ranks_of(found.found.values()) if request.explain else {}
    results = [
        Result(
            document=_shown(hit, passages, texts),
            relevance=hit.relevance,
            score=hit.score,
            passages=passages,
            why=_why(hit, query, ranks) if request.explain else None,
            also=tuple(map(texts.document, hit.also)),
            left=_left(hit, passages),
            supersedes=hit.supersedes,
        )
        for hit, passages in zip(shown, quoted, strict=True)
    ]
    lacking = absent(ranked.hits, query, texts) if results else []
    weakly = doubt(ranked.best, query.alpha, missed=lost(lacking, query, texts)) if results else []
    silent = [
        one.target.collection
        for one in found.found.values()
        if query.period and not one.candidates and not one.target.dates
    ]
    return SearchPage(
        query=request.query,
        results=results,
        statuses=statuses,
        notes=[
            *unfound(lacking),
            *weakly,
            *notes(results, request, statuses, ranked.best),
            *unread(query.terms.unread),
            *undated(silent),
        ],
        rerank=ranked.reranked,
        corrections=query.terms.corrections,
        more=len(ranked.hits) - len(shown),
        weak=bool(weakly),
    )


def _quoted(
    hits: Sequence[Hit], query: Query, texts: Texts, room: int
) -> list[tuple[Passage, ...]]:
    """The passages of each hit that have room on the page, by their worth.

    Where ranks are explained, each text has one first: they are to be compared.
    """
    words = Words(query.terms, texts.reader)
    order, asked = by_worth(hits, query.passages), query.request.limit or 0
    wanted = asked * (OWN if query.request.within else EACH)
    longest = SIZE * min(room, ROOM) // ROOM
    room = max(room, wanted) - NOTES - LINE * min(max(len(hits) - 1, 0), max(LINES, asked))
    each = query.request.explain
    if each:
        order.sort(key=lambda one: one[1] > 0)
    chosen: list[list[Passage]] = [[] for _ in hits]
    for place, number in order:
        waiting = sum(not passages for passages in chosen) if each else 1
        if (room < SHORT and not (each and number == 0)) or len(chosen[place]) < number:
            continue
        part = (hits[place], *hits[place].parts)[number]
        document = texts.document(part)
        named = "" if number else f"{document.document or document.collection} {document.title}"
        cost = HEAD + tokens(named[:NAMED])
        sample = document.text[:longest]
        letters = len(sample) / (tokens(sample) or 1)
        size = int(min(longest, max((room / max(waiting, 1) - cost), SHORT) * letters))
        quote = texts.quote(words, part, size)
        chosen[place].append(Passage(quote.text, document, quote.section))
        room -= cost + tokens((quote.section or "")[:NAMED]) + tokens(quote.text)
    return [tuple(passages) for passages in chosen]


def _shown(hit: Hit, passages: Sequence[Passage], texts: Texts) -> Document:
    """The document of a hit, under the section of its best passage."""
    document = texts.document(hit)
    return document._replace(section=passages[0].section) if passages else document


def _why(hit: Hit, query: Query, ranks: Mapping[tuple[str, PointId], Ranks]) -> Why:
    return why(hit, query, ranks.get((hit.collection, hit.id), ()))


def _left(hit: Hit, passages: Sequence[Passage]) -> int:
    """The number of parts of a text that fit nearly as well and are not shown."""
    fitting = sum(part.relevance >= NEARLY * hit.relevance for part in hit.parts)
    return max(fitting + 1 - max(len(passages), 1), 0)


def worth(page: SearchPage) -> Answer:
    """Whether a page has matches, weak ones only, or none."""
    if not page.results:
        return "empty"
    return "weak" if page.weak else "found"


def listing_page(
    found: Listing, request: SearchRequest, targets: Sequence[Target], period: Period | None
) -> SearchPage:
    """The page of these texts, with their number and how to see older ones."""
    full, count = request.mode == "full", len(found.documents)
    room = BEGINNING
    if request.limit is None and count:  # else the page may be as long as it was asked for
        room = min(room, max(4 * (ROOM // count - LINE), SHORT))
    results = [
        Result(one, relevance=None, score=0.0, passages=() if full else (_beginning(one, room),))
        for one in found.documents
    ]
    silent = [t.collection for t in targets if period and not t.dates and not _count(found, t)]
    return SearchPage(
        query=request.query,
        results=results,
        statuses=found.statuses,
        notes=[
            *notes(results, request, found.statuses),
            *_counted(found),
            *undated(silent),
        ],
    )


def _beginning(document: Document, room: int) -> Passage:
    return Passage(line(document.text, room), document, document.section)


def _count(found: Listing, target: Target) -> int:
    listed = found.listed.get(target.collection)
    return listed.total if listed else 0


def _counted(found: Listing) -> list[str]:
    """The number of texts, and where not all were looked at."""
    count, shown = sum(one.total for one in found.listed.values()), len(found.documents)
    if not count:
        return []
    texts = "1 text" if count == 1 else f"{count:,} texts, the newest first"
    texts = f"{shown} of {texts}" if count > shown else texts
    older = " For older ones raise limit, or set until." if count > shown else ""
    parts = [name for name, one in found.listed.items() if not one.complete]
    without = " Those without a date come last." if _some_undated(found) else ""
    said = [f"{texts}.{without}{older}"]
    if parts:
        said.append(f"{names(parts)}: has no index of dates, so that only some were looked at.")
    return said


def _some_undated(found: Listing) -> bool:
    return any(when is None for one in found.listed.values() for _, when in one.points)


def notes(
    results: Sequence[Result],
    request: SearchRequest,
    statuses: Sequence[Status],
    best: Hit | None = None,
) -> list[str]:
    """Sentences for the caller: what went wrong, and what to do next.

    `best` is the most relevant of what was found, whether it is shown or not.
    """
    sentences = [
        f"{names(several)}: {reason}"
        for reason, several in _by_reason(s for s in statuses if s.state != "ok").items()
    ]
    if not statuses:
        sentences.append(_nowhere(request))
    elif not results:
        sentences.append(_nothing(request, best))
    return sentences


def unread(several: Sequence[str]) -> list[str]:
    """The sentence on collections whose near spellings are not known yet."""
    return [f"{names(several)}: the words are still being read; ask again soon."] if several else []


def undated(silent: Sequence[str]) -> list[str]:
    """The sentence on collections where no text has a date of the period, maybe none at all."""
    sentence = f"{names(silent)}: no text of that time; those without a date are left out."
    return [sentence] if silent else []


def _by_reason(statuses: Iterable[Status]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for status in statuses:
        if status.reason:
            found.setdefault(status.reason, []).append(status.collection)
    return found


def names(several: Sequence[str]) -> str:
    """Some of the names, and how many more there are."""
    return some([*map(called, several)])


def _nowhere(request: SearchRequest) -> str:
    if request.collections is None:
        return 'Nothing is stored there yet. collections=["*"] searches whatever there is.'
    return f"No collection matches {every(request.collections)}: see qdrant-collections."


def _nothing(request: SearchRequest, best: Hit | None) -> str:
    ways = ["use other words"] if request.query.strip() else []
    if Exact.of(request.query).phrases:
        ways.append("leave out the quotes, within which every word must occur as written")
    if request.score_threshold is not None:
        highest = f" (the best has {best.relevance:.2f})" if best else ""
        ways.append(f"lower score_threshold{highest}")
    if request.where():
        ways.append("drop the filter")
    if request.since or request.until:
        ways.append("widen the dates")
    if request.collections is not None and "*" not in request.collections:
        ways.append('search collections ["*"]')
    return f"Nothing found: {' or '.join(ways)}." if ways else "Nothing found."
