"""Hits -> the page that is shown: cut, passages, notes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mcp_server_qdrant.core.datatypes import (
    Document,
    Hit,
    Payload,
    PointId,
    Reranked,
    Result,
    SearchPage,
    Status,
    Terms,
    Why,
)
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import every
from mcp_server_qdrant.search.passage import Tokens, passage

NAMED = 3
TAIL = 0.25
KEPT = 512  # documents: several steps of a search read the same
LEGS = ("meaning", "words", "tags")

Reader = Callable[[str, PointId, Payload | None], Document]


@dataclass(frozen=True, slots=True)
class Shares:
    """What the relevance of this search was made with: the dense share and the BM25 bound.

    And, for an explanation, each hit's places on the legs, and the weights (dense, sparse, tags) of
    each collection's fusion.
    """

    alpha: float
    bound: float
    ranks: Mapping[tuple[str, PointId], tuple[tuple[str, int], ...]] = field(default_factory=dict)
    fusion: Mapping[str, Sequence[float]] = field(default_factory=dict)


class Presenter:
    """Makes the page. `read` turns a payload into a Document, `tokens` a text into BM25 ids."""

    def __init__(self, read: Reader, title: Callable[[Hit], str | None], tokens: Tokens) -> None:
        self._read = read
        self.title = title
        self.tokens = tokens
        self._known: dict[tuple[str, PointId], tuple[Payload | None, Document]] = {}

    def present(
        self,
        hits: Sequence[Hit],
        request: SearchRequest,
        limit: int,
        statuses: Sequence[Status],
        terms: Terms,
        shares: Shares,
        rerank: Reranked | None = None,
    ) -> SearchPage:
        """The best `limit` documents at or above the threshold, best first."""
        chosen = [(hit, self.document(hit)) for hit in worthy(hits, request)[:limit]]
        results = [
            Result(
                document=document,
                relevance=hit.relevance,
                score=hit.score,
                passage=""
                if request.mode == "full"
                else passage(document.text, terms.idf, self.tokens),
                why=why(hit, shares) if request.explain else None,
                also=hit.also,
            )
            for hit, document in chosen
        ]
        return SearchPage(
            query=request.query,
            results=results,
            statuses=statuses,
            notes=[*notes(results, request, statuses), *unread(terms.unread)],
            rerank=rerank,
            corrections=terms.corrections,
        )

    def document(self, hit: Hit) -> Document:
        """The text behind a hit whose payload was fetched."""
        key = hit.collection, hit.id
        payload, document = self._known.get(key, (None, None))
        if document is None or payload is not hit.payload:
            if len(self._known) >= KEPT:
                self._known.clear()
            document = self._read(hit.collection, hit.id, hit.payload)
            self._known[key] = hit.payload, document
        return document

    def gist(self, terms: Terms, hit: Hit, length: int) -> str:
        """Title and text of a hit, of a long one the `length` characters that hold the query."""
        document = self.document(hit)
        text = document.text
        if len(text) > length:
            text = passage(text, terms.idf, self.tokens, length)
        return f"{document.title}\n{text}" if document.title else text


def why(hit: Hit, shares: Shares) -> Why:
    """What made this hit's place, each number as the ranking used it."""
    meaning = None if hit.dense is None else min(max(hit.dense, 0.0), 1.0)
    words = None
    if hit.sparse is not None and shares.bound > 0:
        words = min(max(hit.sparse / shares.bound, 0.0), 1.0)
    alpha = shares.alpha
    if meaning is None or words is None:
        alpha = 0.0 if meaning is None else 1.0
    return Why(
        meaning,
        words,
        alpha,
        hit.rrf,
        hit.score,
        hit.factors,
        hit.reranked,
        ranks=shares.ranks.get((hit.collection, hit.id), ()),
        weights=tuple(zip(LEGS, shares.fusion.get(hit.collection, ()), strict=False)),
        gains=hit.gains,
        tags=hit.tags,
    )


def worthy(hits: Sequence[Hit], request: SearchRequest) -> list[Hit]:
    """The hits that may be shown, in their order.

    A hit in the tail is not cut where a reranker places it near its best.
    """
    least = floor(hits, request)
    if request.score_threshold is not None or least <= 0:
        return above(hits, least)
    near = TAIL * max((hit.reranked or 0.0 for hit in hits), default=0.0)
    return [hit for hit in hits if hit.relevance >= least or (hit.reranked or 0.0) >= near > 0]


def floor(hits: Sequence[Hit], request: SearchRequest) -> float:
    """The least relevance that is shown.

    A caller who named neither a threshold nor a limit is spared the tail that is far below the
    best.
    """
    if request.score_threshold is not None:
        return request.score_threshold
    if request.limit is not None or not hits:
        return 0.0
    return TAIL * max(hit.relevance for hit in hits)


def above(hits: Iterable[Hit], threshold: float) -> list[Hit]:
    """The hits whose relevance is at least `threshold`."""
    return [hit for hit in hits if hit.relevance >= threshold]


def notes(
    results: Sequence[Result], request: SearchRequest, statuses: Sequence[Status]
) -> list[str]:
    """What the caller should know or do next, a sentence each."""
    said = [
        f"{_names(names)}: {reason}"
        for reason, names in _by_reason(status for status in statuses if status.state != "ok")
    ]
    if not statuses:
        said.append(_nowhere(request))
    elif not results:
        said.append(_nothing(request))
    return said


def unread(names: Sequence[str]) -> list[str]:
    """That near spellings of these collections are not known yet."""
    return [f"{_names(names)}: the words are still being read; ask again soon."] if names else []


def _by_reason(statuses: Iterable[Status]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for status in statuses:
        if status.reason:
            found.setdefault(status.reason, []).append(status.collection)
    return list(found.items())


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return every(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _nowhere(request: SearchRequest) -> str:
    if request.collections is None:
        return 'Nothing is stored there yet. collections=["*"] searches whatever there is.'
    return f"No collection matches {every(request.collections)}: see qdrant-collections."


def _nothing(request: SearchRequest) -> str:
    ways = ["use other words"]
    if request.score_threshold is not None:
        ways.append("lower score_threshold")
    if request.query_filter:
        ways.append("drop the filter")
    if request.collections is not None and "*" not in request.collections:
        ways.append('search collections ["*"]')
    return f"Nothing found: {' or '.join(ways)}."
