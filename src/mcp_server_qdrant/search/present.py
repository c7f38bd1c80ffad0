"""Hits -> the page that is shown: passages, reasons and notes.

A passage is one quote of a part, and its section. A part that has room is quoted whole, without the
headings that are shown above it. Of a longer one the run of sentences, list items or code lines is
quoted that has the most of the query's words; the sentence after a match counts too, since it often
says what the match leads to. Only white space differs from the text: lines of a paragraph are
joined.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from mcp_server_qdrant.core.datatypes import (
    Document,
    Passage,
    Result,
    SearchPage,
    Status,
)
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.core.find import LINES, SearchRequest
from mcp_server_qdrant.core.notation import called, every, some
from mcp_server_qdrant.core.sentences import SIGNS, Sentence, blocks, sentences, tokens
from mcp_server_qdrant.search.relevance import HALF, Hit, bound, within_one, written
from mcp_server_qdrant.search.rerank import Ranked
from mcp_server_qdrant.search.retrieve import Retrieved
from mcp_server_qdrant.search.understand import Query
from mcp_server_qdrant.search.words.terms import Words, share

ROOM = 600  # tokens of a page
NOTES = 24  # tokens of a page for the notes
EACH = 60  # tokens of a page for each result that the caller asked for, where that is more
OWN = 250  # the same for each passage of the one text that is searched
HEAD = 10  # tokens of a heading beside the names in it
LINE = 20  # about the tokens of a result without a quote
NAMED = 60  # characters of a name in a heading
SIZE = 700  # characters of a quote at most
SHORT = 45  # tokens: less room is left alone
BESIDE = 0.05  # of the worth of another passage of the same text
TEXT = 0.1  # of a text further down
NEARLY = 0.5  # of the relevance of its best: then another part of a text fits too
MEANING, WORDS = 0.36, 0.16
TRUSTED = 0.5  # by a reranker
LONGEST = 20_000  # characters of a part that are looked at
AFTER = 0.5  # what the words of a sentence count for the one after it
BEGINNING = 200  # characters of a part in which no word of the query is found

_ATTRIBUTES = re.compile(r"\s*\{:[^{}]*\}")  # of a heading in Markdown
_INDENT = re.compile(r"[ \t]*")

Sections = Sequence[tuple[int, str]]


def present(
    ranked: Ranked,
    found: Retrieved,
    query: Query,
    statuses: Sequence[Status],
    room: int = ROOM,
) -> SearchPage:
    """The page of the best hits, as many as the query's limit; `room` in tokens."""
    request, shown = query.request, ranked.hits[: query.limit]
    full = request.mode == "full"
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
        )
        for hit, passages in zip(shown, chosen, strict=True)
    ]
    lacking = absent(ranked.hits, query) if results else []
    weakly = doubt(ranked.best, query.alpha, missed=lost(lacking, query)) if results else []
    nothing = None if results else nothing_found(request, statuses, ranked.best)
    silent = {t.collection for one in found.found for t in one.targets if not t.dates}
    silent -= {hit.collection for one in found.found for hit in one.candidates}
    return SearchPage(
        query=request.query,
        results=results,
        statuses=statuses,
        notes=[
            *([f"No text found contains {every(lacking)}."] if lacking else []),
            *weakly,
            *faults(statuses),
            *([nothing] if nothing else []),
            *undated(sorted(silent) if query.period else ()),
        ],
        rerank=ranked.reranked,
        corrections=query.terms.corrections,
        more=len(ranked.hits) - len(shown),
        weak=bool(weakly),
        searched=query.terms.query,
        nothing=nothing,
    )


def _chosen(hits: Sequence[Hit], query: Query, room: int) -> list[tuple[Passage, ...]]:
    """The passages of each hit that have room on the page, by their worth.

    The texts whose passages have no room keep a line of their own.
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
        if len(document.text) > left:  # else it has room in any case
            sample = document.text[:longest]
            letters = len(sample) / (tokens(sample) or 1)
            size = int(min(longest, left * letters))
        shown = passage(document, query.words, size)
        chosen[place].append(shown)
        room -= cost + tokens((shown.section or "")[:NAMED]) + tokens(shown.text)
    return [tuple(passages) for passages in chosen]


def by_worth(hits: Sequence[Hit], most: int) -> list[tuple[int, int]]:
    """The passages in the order of their worth, as (text, part); part 0 is the text's best.

        worth = score / best score - BESIDE * passages of its text before it - TEXT * texts before

    so that a clear first text shows two or three of its parts and an even field one of each. Of
    each text at most `most`, and each only after those before it.
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
    """The document of a hit, under the section of its best passage."""
    return hit.document._replace(section=passages[0].section) if passages else hit.document


def _left(hit: Hit, passages: Sequence[Passage]) -> int:
    """The number of parts of a text that fit nearly as well and are not shown."""
    fitting = sum(part.relevance >= NEARLY * hit.relevance for part in hit.parts)
    return max(fitting + 1 - max(len(passages), 1), 0)


def why(hit: Hit, query: Query) -> dict[str, Any]:
    """The numbers that made this hit's place, as the ranking used them.

    `meaning` and `words` are the legs (None: not searched), `words` as a share of the largest BM25
    score that any document could reach; `alpha` is the share of meaning. `gains` were added to the
    relevance, `factors` multiply it.
    """
    limit = bound(query.terms)
    meaning = None if hit.dense is None else within_one(hit.dense)
    words = None if hit.sparse is None or limit <= 0 else within_one(hit.sparse / limit)
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


def faults(statuses: Iterable[Status]) -> list[str]:
    """The sentences on collections that were not, or not wholly, searched; one for each reason."""
    found: dict[str, list[str]] = {}
    for status in statuses:
        if status.reason and status.state != "ok":
            found.setdefault(status.reason, []).append(status.collection)
    return [f"{names(several)}: {reason}" for reason, several in found.items()]


def undated(silent: Sequence[str]) -> list[str]:
    """The sentence on collections where no text has a date of the period, maybe none at all."""
    sentence = f"{names(silent)}: no text of that time; those without a date are left out."
    return [sentence] if silent else []


def names(several: Sequence[str]) -> str:
    """Some of the names, and how many more there are."""
    return some(several, shown=called)


def nothing_found(
    request: SearchRequest, statuses: Sequence[Status], best: Hit | None = None
) -> str:
    """The sentence that nothing was found, and what to do next.

    `best` is the most relevant of what was found and is not shown.
    """
    if not statuses and request.collections is None:
        return 'Nothing is stored there yet. collections=["*"] searches whatever there is.'
    if not statuses:
        return f"No collection matches {every(request.collections or ())}: see qdrant-collections."
    highest = f" (the best has {best.relevance:.2f})" if best else ""
    quotes = "leave out the quotes, within which every word must occur as written"
    ways = {
        "use other words": bool(request.query.strip()),
        quotes: bool(Exact.in_query(request.query).phrases),
        f"lower score_threshold{highest}": request.score_threshold is not None,
        "drop the filter": bool(request.where()),
        "widen the dates": bool(request.since or request.until),
        'search collections ["*"]': "*" not in (request.collections or "*"),
    }
    helpful = " or ".join(way for way, may_help in ways.items() if may_help)
    return f"Nothing found: {helpful}." if helpful else "Nothing found."


def weak(best: Hit, alpha: float) -> bool:
    """True where no hit can be trusted to match if `best` is the most relevant.

    It is less relevant than a text of these cosine and BM25 values would be:

        relevance < a * MEANING + (1 - a) * WORDS

    with a = 1 where words were not searched, 0 where vectors were not. Measured: docs/ranking.md.
    """
    dense = 1.0 if best.sparse is None else 0.0 if best.dense is None else alpha
    return best.relevance < dense * MEANING + (1 - dense) * WORDS


def absent(hits: Iterable[Hit], query: Query) -> list[str]:
    """The identifiers, numbers and phrases of the query that none of the texts contains."""
    if not query.exact:
        return []
    parts = (part for hit in hits for part in (hit, *hit.parts))
    held = {one for part in parts for one in query.exact.held(written(part.document))}
    return [one for one in (*query.exact.pieces, *query.exact.phrases) if one not in held]


def lost(absent: Iterable[str], query: Query) -> bool:
    """True if the identifiers, numbers and phrases that no text contains are half of the query.

    Then the texts that were found are on other ones, and no match.
    """
    terms = {term for one in absent for term in query.words.tokens(one)}
    if not terms:
        return False
    weights = query.words.weights
    unseen = {term: weights.get(term, max(weights.values(), default=1.0)) for term in terms}
    return share(terms, {**weights, **unseen}) >= HALF


def doubt(best: Hit | None, alpha: float, *, missed: bool = False) -> list[str]:
    """The sentence that all matches are weak; none where a reranker trusts the best.

    `missed`: no text contains what the query names exactly.
    """
    if best is None or (best.reranked or 0.0) >= TRUSTED:
        return []
    if not missed and not weak(best, alpha):
        return []
    return [f"Weak matches only: the best has relevance {best.relevance:.2f}."]


def gist(document: Document, words: Words, length: int) -> str:
    """Title and text of a part; of a long text the `length` characters nearest the query."""
    text = document.text
    if len(text) > length:
        text, _ = quote(text, (), words, length)
    return f"{document.title}\n{text}" if document.title else text


def passage(document: Document, words: Words, room: int) -> Passage:
    """What is shown of a part, in at most `room` characters."""
    sections = ((0, document.section or ""), *document.sections)
    text, section = quote(document.text, sections, words, room, document.title)
    return Passage(text, document, section)


def quote(
    text: str, sections: Sections, words: Words, room: int, title: str | None = None
) -> tuple[str, str | None]:
    """A stretch of a part in at most `room` characters, and the headings above it.

    `sections` begin at places in the part.

    A first heading that is the `title` is left out, as it stands above the quote.
    """
    text = text[:LONGEST]
    units = sentences(text, LONGEST)
    if not units:  # rules and fences alone
        return _cut(folded(text), room), _section(sections, 0)
    first, last, shares = 0, len(units) - 1, list[float]()
    starts = [start for start, _ in sections if start > units[0].body]
    if starts:  # from the section on that has the sentence with the most of the query
        shares = _shares(text, units, words)
        best = units[max(range(len(units)), key=shares.__getitem__)].body
        begin = max((start for start in starts if start <= best), default=0)
        first = next(number for number, one in enumerate(units) if one.body >= begin)
    whole = text[units[first].body :]
    if len(whole) > room and len(folded(whole)) > room:
        shares = shares or _shares(text, units, words)
        first, last = _window(units, shares, first, room)
    section = _section(sections, units[first].body)
    start, body = units[first].start, units[first].body
    if section:
        start = _below(text, body, section)
    elif title and text[start:body].strip("#= \n") == title:
        start = body
    shown = folded(text[start : units[last].end if last + 1 < len(units) else len(text)])
    return _around(shown, words, room) if len(shown) > room else shown, section


def _shares(text: str, units: Sequence[Sentence], words: Words) -> list[float]:
    """The share of the query that each sentence has."""
    tokens = words.reader(text)
    return [words.share(text[one.body : one.end], tokens) for one in units]


def _window(
    units: Sequence[Sentence], shares: Sequence[float], begin: int, room: int
) -> tuple[int, int]:
    """The first and the last sentence of the run, from `begin` on, with the most of the query."""
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
    """The section around this place."""
    name = max((one for one in sections if one[0] <= place), default=(0, ""))[1]
    return _ATTRIBUTES.sub("", name) or None


def _below(text: str, start: int, section: str) -> int:
    """Where a text goes on below the underlined heading that is shown as its section."""
    name, rule, rest = [*text[start:].split("\n", 2), "", ""][:3]
    underlined = rule.strip() and not rule.strip(f"{SIGNS} ") and rest.strip()
    if underlined and section.endswith(name.strip()):
        return len(text) - len(rest)
    return start


def _around(sentence: str, words: Words, room: int) -> str:
    """The stretch of a long sentence that has the most of the query, cut between words."""
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
    """The beginning of a text that has room, cut between words where it has any."""
    if len(text) <= room:
        return text
    return text[: max(text.rfind(" ", 0, room), text.rfind("\n", 0, room), 0) or room].rstrip()


def folded(text: str) -> str:
    """A text with its paragraphs each on a line; code, rows and items keep their lines."""
    lines: list[str] = []
    margin: int | None = None
    at = 0
    for start, end, kind in [*blocks(text), (len(text), len(text), "end")]:
        lines += map(str.strip, text[at:start].splitlines())  # rules and fences
        one, at = text[start:end], end
        if kind != "code":
            lines.append(" ".join(one.split()))
            continue
        indent = len(_INDENT.match(one)[0])  # type: ignore[index]
        margin = indent if margin is None else min(margin, indent)
        lines.append(one.rstrip()[margin:])
    return "\n".join(filter(None, lines))
