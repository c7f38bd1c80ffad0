"""Turns hits into the page: passages, explanations and notes.

A passage is one contiguous quote of a part, with its section. A part that fits is quoted whole,
without the headings shown above it. Of a longer part, the quote is the run of lines (or sentences
of a long line) with most of the query's words; the one after a match counts too, because it often
has the answer. Lines are quoted as stored, only without the indentation that all of them share,
because line breaks and indents may have a meaning.
"""

import re
from collections.abc import Iterable, Sequence
from textwrap import dedent
from typing import Any

from mcp_server_qdrant.core.datatypes import (
    Document,
    Passage,
    Result,
    SearchPage,
    Status,
)
from mcp_server_qdrant.core.find import LINES, WEAK, SearchRequest
from mcp_server_qdrant.core.notation import cite, cite_all, first_few
from mcp_server_qdrant.core.sentences import SIGNS, Sentence, sentences, tokens
from mcp_server_qdrant.search.relevance import HALF, Hit, clamp, full_text, highest_bm25
from mcp_server_qdrant.search.rerank import Ranked
from mcp_server_qdrant.search.understand import Query
from mcp_server_qdrant.search.words.terms import Words, share

ROOM = 600  # tokens per page
NOTES = 24  # tokens per page reserved for notes
MORE_NOTES = 20  # tokens for further notes on a page without an answer
EACH = 60  # tokens per requested result, if that is more than the page
OWN = 250  # the same per passage if one text is searched
HEAD = 10  # tokens of a result's heading without the names in it
LINE = 20  # approximate tokens of a result without a quote
NAMED = 60  # characters of a name in a heading at most
SIZE = 700  # characters of a quote at most
SHORT = 45  # tokens; less room is left empty
BESIDE = 0.05  # worth lost per earlier passage of the same text
TEXT = 0.1  # worth lost per text before it
NEARLY = 0.5  # share of the best part's relevance from which another part fits too
MEANING, WORDS = 0.36, 0.16
TRUSTED = 0.5  # a reranker's score from which a hit is no weak match
LONGEST = 20_000  # characters of a part that are considered
AFTER = 0.5  # weight of a sentence's words for the sentence after it
BEGINNING = 200  # characters quoted of a part without words of the query

WEAKLY = "Weak matches only"
LACKING = "No text found contains"

_ATTRIBUTES = re.compile(r"\s*\{:[^{}]*\}")  # attributes of a Markdown heading
_BLANK_LINES = re.compile(r"\n{4,}")

Sections = Sequence[tuple[int, str]]


def present(
    ranked: Ranked,
    query: Query,
    statuses: Sequence[Status],
    room: int = ROOM,
) -> SearchPage:
    """The page of the best hits, at most the query's limit; `room` in tokens."""
    request, shown = query.request, ranked.hits[: query.limit]
    full = request.mode == "full"
    lacking = missing_exact(ranked.hits, query) if shown else []
    all_of = "" if query.exact.required or len(lacking) < 2 else "all of "
    missed = is_half_missing(lacking, query)
    weakly = weak_notes(ranked.best, query.alpha, missed=missed) if shown else []
    if weakly and request.limit is None:
        room = min(room, WEAK - MORE_NOTES)
    chosen = [()] * len(shown) if full else _chosen(shown, query, room)
    results = [
        Result(
            document=_shown(hit, passages),
            relevance=hit.relevance,
            score=hit.score,
            passages=passages,
            why=why(hit, query) if request.explain else None,
            also=tuple(copy.document for copy in hit.also),
            left=_left(hit, passages),
            supersedes=hit.supersedes,
            in_time=hit.in_time,
            as_of=hit.as_of,
        )
        for hit, passages in zip(shown, chosen, strict=True)
    ]
    nothing = (
        None
        if results
        else nothing_found(request, statuses, ranked.best, scoped=query.scope is not None)
    )
    return SearchPage(
        query=request.query,
        results=results,
        statuses=statuses,
        notes=[
            *([f"{LACKING} {all_of}{cite_all(lacking)}."] if lacking else []),
            *weakly,
            *order_notes(shown),
            *failure_notes(statuses),
            *([nothing] if nothing else []),
        ],
        rerank=ranked.reranked,
        corrections=query.terms.corrections,
        more=len(ranked.hits) - len(shown),
        weak=bool(weakly),
        searched=query.terms.query,
        nothing=nothing,
    )


def _chosen(hits: Sequence[Hit], query: Query, room: int) -> list[tuple[Passage, ...]]:
    """The passages of each hit that fit on the page, chosen by their worth.

    A text whose passages do not fit keeps a line.
    """
    order, asked = by_worth(hits, query.passages), query.request.limit or 0
    wanted = asked * (OWN if query.request.within else EACH)
    longest = SIZE * min(room, ROOM) // ROOM
    room = max(room, wanted) - NOTES - LINE * min(max(len(hits) - 1, 0), max(LINES, asked))
    chosen: list[list[Passage]] = [[] for _ in hits]
    for place, number in order:
        if room < SHORT or len(chosen[place]) < number:
            continue
        document = (hits[place], *hits[place].parts)[number].document
        named = "" if number else f"{document.document or document.collection} {document.title}"
        cost = HEAD + tokens(named[:NAMED])
        size, left = longest, max(room - cost, SHORT)
        if len(document.text) > left:  # a shorter text fits in any case
            size = fitting(document.text, left, longest)
        shown = passage(document, query.words, size)
        chosen[place].append(shown)
        room -= cost + tokens((shown.section or "")[:NAMED]) + _cost(shown.text)
    return [tuple(passages) for passages in chosen]


def fitting(text: str, room: int, longest: int) -> int:
    """The approximate number of characters that fit in `room` tokens, at most `longest`."""
    sample = text[:longest]
    return int(min(longest, room * len(sample) / (_cost(sample) or 1)))


def _cost(text: str) -> int:
    """The tokens of a quote, including the `>` of each line."""
    return tokens(text) + text.count("\n")


def by_worth(hits: Sequence[Hit], most: int) -> list[tuple[int, int]]:
    """The passages by worth, as (index of the text, index of the part); part 0 is the best.

        worth = score / best score - BESIDE * passages of its text before it - TEXT * texts before

    so that a clearly best text shows two or three parts, and texts of similar rank one each. At
    most `most` of each text.
    """
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    worth: dict[tuple[int, int], float] = {}
    for place, hit in enumerate(hits):
        top, value = hit.relevance or 1.0, hit.score / best - TEXT * place
        for number, part in enumerate((hit, *hit.parts)[:most]):
            lower = value * min(part.relevance / top, 1.0) if number else value
            worth[place, number] = lower - BESIDE * number
    return sorted(worth, key=lambda one: (-worth[one], one))


def _shown(hit: Hit, passages: Sequence[Passage]) -> Document:
    """The document of a hit with the section of its best passage."""
    return hit.document._replace(section=passages[0].section) if passages else hit.document


def _left(hit: Hit, passages: Sequence[Passage]) -> int:
    """The number of further parts that fit nearly as well and are not shown."""
    fitting = sum(part.relevance >= NEARLY * hit.relevance for part in hit.parts)
    return max(fitting + 1 - max(len(passages), 1), 0)


def why(hit: Hit, query: Query) -> dict[str, Any]:
    """The numbers that the ranking of this hit used.

    `meaning` and `words` are the scores of the legs (None: not searched); `words` is a share of the
    highest possible BM25 score; `alpha` is the weight of `meaning`. `gains` were added to the
    relevance, `factors` multiplied it.
    """
    limit = highest_bm25(query.terms)
    meaning = None if hit.dense is None else clamp(hit.dense)
    words = None if hit.sparse is None or limit <= 0 else clamp(hit.sparse / limit)
    alpha = query.alpha
    if meaning is None or words is None:
        alpha = 0.0 if meaning is None else 1.0
    reasons = {
        "meaning": meaning,
        "words": words,
        "alpha": alpha,
        "rrf": hit.rrf,
        "score": hit.score,
        "factors": dict(hit.factors),
        "gains": dict(hit.gains),
        "tags": list(hit.tags),
    }
    return reasons if hit.reranked is None else reasons | {"reranked": hit.reranked}


def order_notes(shown: Sequence[Hit]) -> list[str]:
    """A note on the factors in the order, if it is not the order of relevance.

    A reranker adds its own note.
    """
    seen = [round(hit.relevance, 2) for hit in shown]
    if seen == sorted(seen, reverse=True) or any(hit.reranked is not None for hit in shown):
        return []
    counted = {name for hit in shown for name, factor in hit.factors if factor != 1}
    return [f"In order of relevance x {' x '.join(sorted(counted))}."] if counted else []


def failure_notes(statuses: Iterable[Status]) -> list[str]:
    """Notes on collections that were not completely searched, one per reason."""
    found: dict[str, list[str]] = {}
    for status in statuses:
        if status.reason and status.state != "ok":
            found.setdefault(status.reason, []).append(status.collection)
    return [f"{first_few(several, shown=cite)}: {reason}" for reason, several in found.items()]


def nothing_found(
    request: SearchRequest,
    statuses: Sequence[Status],
    best: Hit | None = None,
    *,
    scoped: bool = False,
) -> str:
    """The note that nothing was found, and what to do next.

    `best` is the most relevant hit below the threshold; `scoped`: only a folder's scope was
    searched.
    """
    if not statuses and request.collections is None:
        return 'Nothing is stored there yet. collections=["*"] searches all collections.'
    if not statuses:
        return (
            f"No collection matches {cite_all(request.collections or ())}: see qdrant-collections."
        )
    highest = f" (the best has {best.relevance:.2f})" if best else ""
    ways = {
        "use other words": bool(request.query.strip()),
        f"lower score_threshold{highest}": request.score_threshold is not None,
        "drop the filter": bool(request.where()),
        "widen the dates": bool(request.since or request.until),
        'search collections ["*"]': scoped or "*" not in (request.collections or "*"),
    }
    helpful = " or ".join(way for way, may_help in ways.items() if may_help)
    return f"Nothing found: {helpful}." if helpful else "Nothing found."


def is_weak(best: Hit, alpha: float) -> bool:
    """True if even the best hit is probably no match:

        relevance < a * MEANING + (1 - a) * WORDS

    with a = 1 if words were not searched, 0 if vectors were not. Measured: docs/ranking.md.
    """
    dense = 1.0 if best.sparse is None else 0.0 if best.dense is None else alpha
    return best.relevance < dense * MEANING + (1 - dense) * WORDS


def missing_exact(hits: Iterable[Hit], query: Query) -> list[str]:
    """The identifiers, numbers and phrases of the query that no text contains.

    Phrases that only some texts contain, but none all of them, are all named.
    """
    if not query.exact:
        return []
    parts = (part for hit in hits for part in (hit, *hit.parts))
    held = {one for part in parts for one in query.exact.found_in(full_text(part.document))}
    held -= {*(() if query.exact.required else query.exact.phrases)}
    return [one for one in (*query.exact.pieces, *query.exact.phrases) if one not in held]


def is_half_missing(absent: Iterable[str], query: Query) -> bool:
    """True if the missing identifiers, numbers and phrases are at least half of the query.

    Then the texts found are about other ones, and no match.
    """
    terms = {term for one in absent for term in query.words.tokens(one)}
    if not terms:
        return False
    weights = query.words.weights
    unseen = {term: weights.get(term, max(weights.values(), default=1.0)) for term in terms}
    return share(terms, {**weights, **unseen}) >= HALF


def weak_notes(best: Hit | None, alpha: float, *, missed: bool = False) -> list[str]:
    """The note that all matches are weak, unless a reranker trusts the best.

    `missed`: no text contains what the query names exactly.
    """
    if best is None or (best.reranked or 0.0) >= TRUSTED:
        return []
    if not missed and not is_weak(best, alpha):
        return []
    return [f"{WEAKLY}: the best has relevance {best.relevance:.2f}."]


def gist(document: Document, words: Words, length: int) -> str:
    """Title and text of a part; of a long text, the `length` characters that fit the query best."""
    text = document.text
    if len(text) > length:
        text, _ = quote(text, (), words, length)
    return f"{document.title}\n{text}" if document.title else text


def passage(document: Document, words: Words, room: int) -> Passage:
    """The quote of a part, in at most `room` characters."""
    sections = ((0, document.section or ""), *document.sections)
    text, section = quote(document.text, sections, words, room, document.title)
    return Passage(text, document, section)


def quote(
    text: str, sections: Sections, words: Words, room: int, title: str | None = None
) -> tuple[str, str | None]:
    """A contiguous quote of at most `room` characters, and its section.

    `sections` are (offset, headings). A first heading equal to the `title` is left out, because the
    title is shown above the quote.
    """
    text = text[:LONGEST]
    units = sentences(text, LONGEST)
    if not units:  # only rules and fences
        return _cut(dedented(text), room), _section(sections, 0)
    first, last, shares = 0, len(units) - 1, list[float]()
    starts = [start for start, _ in sections if start > units[0].body]
    if starts:  # begin at the section of the best sentence
        shares = _shares(text, units, words)
        best = units[max(range(len(units)), key=shares.__getitem__)].body
        begin = max((start for start in starts if start <= best), default=0)
        first = next(number for number, one in enumerate(units) if one.body >= begin)
    whole = text[units[first].body :]
    if len(whole) > room and len(dedented(whole)) > room:
        shares = shares or _shares(text, units, words)
        first, last = _window(units, shares, first, room)
    section = _section(sections, units[first].body)
    start, body = units[first].start, units[first].body
    if section:
        start = _below(text, body, section)
    elif title and text[start:body].strip("#= \n") == title:
        start = body
    shown = dedented(text[start : units[last].end if last + 1 < len(units) else len(text)])
    return _around(shown, words, room) if len(shown) > room else shown, section


def _shares(text: str, units: Sequence[Sentence], words: Words) -> list[float]:
    """The share of the query that each sentence contains."""
    tokens = words.reader(text)
    return [words.share(text[one.body : one.end], tokens) for one in units]


def _window(
    units: Sequence[Sentence], shares: Sequence[float], begin: int, room: int
) -> tuple[int, int]:
    """(first, last) of the run of sentences from `begin` on with most of the query."""
    if not any(shares[begin:]):
        room = min(room, BEGINNING)
    best, found = -1.0, (begin, begin)
    for first in range(begin, len(units)):
        last, gain = first, shares[first]
        while last + 1 < len(units) and units[last + 1].end - units[first].body <= room:
            last += 1
            gain += shares[last] + AFTER * shares[last - 1]
        if gain > best + 1e-9:
            best, found = gain, (first, last)
    return found


def _section(sections: Sections, place: int) -> str | None:
    """The section at this offset."""
    name = max((one for one in sections if one[0] <= place), default=(0, ""))[1]
    return _ATTRIBUTES.sub("", name) or None


def _below(text: str, start: int, section: str) -> int:
    """The offset below an underlined heading, which is shown as the section."""
    name, rule, rest = [*text[start:].split("\n", 2), "", ""][:3]
    underlined = rule.strip() and not rule.strip(f"{SIGNS} ") and rest.strip()
    if underlined and section.endswith(name.strip()):
        return len(text) - len(rest)
    return start


def _around(sentence: str, words: Words, room: int) -> str:
    """The part of a long sentence with most of the query, cut between words."""
    step = max(room // 4, 1)
    tokens = words.reader(sentence)

    def gain(start: int) -> tuple[float, int]:
        return words.share(sentence[start : start + room], tokens), -start

    start = max(range(0, max(len(sentence) - room, 0) + step, step), key=gain)
    start = min(start, max(len(sentence) - room, 0))
    if start:
        start = sentence.find(" ", start) + 1 or start
    return _cut(sentence[start:], room)


def _cut(text: str, room: int) -> str:
    """The beginning of a text that fits, cut between words if possible."""
    if len(text) <= room:
        return text
    return text[: max(text.rfind(" ", 0, room), text.rfind("\n", 0, room), 0) or room].rstrip()


def dedented(text: str) -> str:
    """The lines without their common indentation, with at most two blank lines in a row."""
    lines = map(str.rstrip, dedent(text).splitlines())
    return _BLANK_LINES.sub("\n\n\n", "\n".join(lines)).strip("\n")
