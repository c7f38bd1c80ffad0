"""Hits -> the page that is shown: passages and notes."""

from collections.abc import Iterable, Mapping, Sequence

from mcp_server_qdrant.core.datatypes import Document, Hit, Result, SearchPage, Status, Target
from mcp_server_qdrant.core.dates import Period
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import called, every, line, some
from mcp_server_qdrant.core.telemetry import Answer
from mcp_server_qdrant.search.doubt import doubt
from mcp_server_qdrant.search.explain import ranks_of, why
from mcp_server_qdrant.search.passage import WHOLE, Words
from mcp_server_qdrant.search.query import Listing, Query, Ranked
from mcp_server_qdrant.search.texts import Texts

ROOM = 520  # characters of the best hit's passage
LATER, LEAST = 100, 50  # of another's with title and section, and of the passage alone at least


def present(ranked: Ranked, query: Query, statuses: Sequence[Status], texts: Texts) -> SearchPage:
    """The page of the best hits, as many as the query's limit."""
    request, full = query.request, query.request.mode == "full"
    ranks = ranks_of(ranked.retrieved.found.values()) if request.explain else {}
    words = Words(query.terms, texts.reader)
    shown = ranked.hits[: query.limit]
    results = []
    for number, hit in enumerate(shown):
        places = ranks.get((hit.collection, hit.id), ())
        document, shown_text = texts.document(hit), ""
        if not full:
            room = _room(document) if number else ROOM
            shown_text, section = texts.passage(words, hit, room)
            document = document._replace(section=section)
        results.append(
            Result(
                document=document,
                relevance=hit.relevance,
                score=hit.score,
                passage=shown_text,
                why=why(hit, query, places) if request.explain else None,
                also=hit.also,
            )
        )
    silent = [
        one.target.collection
        for one in ranked.retrieved.found.values()
        if query.plan.period and not one.candidates and not one.target.dates
    ]
    return SearchPage(
        query=request.query,
        results=results,
        statuses=statuses,
        notes=[
            *(doubt(ranked.best, query.alpha) if results else ()),
            *notes(results, request, statuses, ranked.best),
            *unread(query.terms.unread),
            *undated(silent),
            *fewer(len(ranked.retrieved.statuses), len(query.targets)),
        ],
        rerank=ranked.reranked,
        corrections=query.terms.corrections,
        more=len(ranked.hits[query.limit :]),
        least=min((hit.relevance for hit in ranked.hits[query.limit :]), default=None),
    )


def _room(document: Document) -> int:
    """The characters of the passage of a hit that is not the best; a short text is whole."""
    if document.chunks == 1 and len(document.text) <= WHOLE:
        return WHOLE
    return max(LATER - len(document.heading or ""), LEAST)


def worth(page: SearchPage, ranked: Ranked, query: Query) -> Answer:
    """Whether a page has matches, weak ones only, or none."""
    if not page.results:
        return "empty"
    return "weak" if doubt(ranked.best, query.alpha) else "found"


def listing_page(
    found: Listing, request: SearchRequest, targets: Sequence[Target], period: Period | None
) -> SearchPage:
    """The page of these texts, with their number and how to see older ones."""
    full = request.mode == "full"
    results = [
        Result(one, relevance=None, score=0.0, passage="" if full else line(one.text, WHOLE))
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


def _count(found: Listing, target: Target) -> int:
    listed = found.listed.get(target.collection)
    return listed.total if listed else 0


def _counted(found: Listing) -> list[str]:
    """The number of texts, and where not all were looked at."""
    count, shown = sum(one.total for one in found.listed.values()), len(found.documents)
    if not count:
        return []
    texts = "1 text" if count == 1 else f"{count:,} texts, the newest first"
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


def fewer(asked: int, there: int) -> list[str]:
    """The sentence on collections that were not asked, as they hardly have better results."""
    return [f"Asked {asked:,} of {there:,} collections."] if asked < there else []


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
    if request.query_filter:
        ways.append("drop the filter")
    if request.since or request.until:
        ways.append("widen the dates")
    if request.collections is not None and "*" not in request.collections:
        ways.append('search collections ["*"]')
    return f"Nothing found: {' or '.join(ways)}." if ways else "Nothing found."
