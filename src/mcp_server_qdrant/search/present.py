"""Hits -> the page that is shown: passages and notes."""

from collections.abc import Iterable, Mapping, Sequence

from mcp_server_qdrant.core.datatypes import Found, Hit, Period, Result, SearchPage, Status
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import every
from mcp_server_qdrant.search.doubt import doubt
from mcp_server_qdrant.search.explain import ranks_of, why
from mcp_server_qdrant.search.passage import SHORT, Words
from mcp_server_qdrant.search.query import Query, Ranked
from mcp_server_qdrant.search.texts import Texts

NAMED = 3
ROOM = 480  # characters of the best hit's passage; that of others shrinks with their score, squared


def present(ranked: Ranked, query: Query, statuses: Sequence[Status], texts: Texts) -> SearchPage:
    """The page of the best hits, as many as the query's limit."""
    request, full = query.request, query.request.mode == "full"
    ranks = ranks_of(ranked.retrieved.found.values()) if request.explain else {}
    words = Words(query.terms, texts.tokens)
    shown = ranked.hits[: query.limit]
    best = max((hit.score for hit in shown), default=0.0)
    results = []
    for hit in shown:
        room = max(int(ROOM * (hit.score / best) ** 2), SHORT) if best > 0 else SHORT
        places = ranks.get((hit.collection, hit.id), ())
        results.append(
            Result(
                document=texts.document(hit),
                relevance=hit.relevance,
                score=hit.score,
                passage="" if full else texts.passage(words, hit, room),
                why=why(hit, query, places) if request.explain else None,
                also=hit.also,
            )
        )
    return SearchPage(
        query=request.query,
        results=results,
        statuses=statuses,
        notes=[
            *(doubt(ranked.best, query.alpha) if results else ()),
            *notes(results, request, statuses, ranked.best),
            *unread(query.terms.unread),
            *undated(ranked.retrieved.found.values(), query.plan.period),
        ],
        rerank=ranked.reranked,
        corrections=query.terms.corrections,
    )


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
        f"{_names(names)}: {reason}"
        for reason, names in _by_reason(s for s in statuses if s.state != "ok").items()
    ]
    if not statuses:
        sentences.append(_nowhere(request))
    elif not results:
        sentences.append(_nothing(request, best))
    return sentences


def unread(names: Sequence[str]) -> list[str]:
    """The sentence on collections whose near spellings are not known yet."""
    return [f"{_names(names)}: the words are still being read; ask again soon."] if names else []


def undated(found: Iterable[Found], period: Period | None) -> list[str]:
    """The sentence on collections where no text has a date of the period, maybe none at all."""
    silent = [
        one.target.collection
        for one in found
        if period and not one.candidates and not one.target.dates
    ]
    sentence = f"{_names(silent)}: no text of that time; those without a date are left out."
    return [sentence] if silent else []


def _by_reason(statuses: Iterable[Status]) -> Mapping[str, list[str]]:
    names: dict[str, list[str]] = {}
    for status in statuses:
        if status.reason:
            names.setdefault(status.reason, []).append(status.collection)
    return names


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return every(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _nowhere(request: SearchRequest) -> str:
    if request.collections is None:
        return 'Nothing is stored there yet. collections=["*"] searches whatever there is.'
    return f"No collection matches {every(request.collections)}: see qdrant-collections."


def _nothing(request: SearchRequest, best: Hit | None) -> str:
    ways = ["use other words"]
    if request.score_threshold is not None:
        highest = f" (the best has {best.relevance:.2f})" if best else ""
        ways.append(f"lower score_threshold{highest}")
    if request.query_filter:
        ways.append("drop the filter")
    if request.since or request.until:
        ways.append("widen the dates")
    if request.collections is not None and "*" not in request.collections:
        ways.append('search collections ["*"]')
    return f"Nothing found: {' or '.join(ways)}."
