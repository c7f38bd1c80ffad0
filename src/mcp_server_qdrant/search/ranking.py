"""The ranking steps in their order, and those that look beyond the relevance.

A factor multiplies the score and leaves the relevance alone.
"""

import math
import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rapidfuzz import fuzz, utils

from mcp_server_qdrant.core.context import recorder
from mcp_server_qdrant.core.datatypes import SUPERSEDED_KEY, Document, PointId, Priority, Scored
from mcp_server_qdrant.core.dates import age_from
from mcp_server_qdrant.core.notation import date_paths, document_id
from mcp_server_qdrant.search.relevance import (
    Hit,
    by_score,
    calibrate,
    lift_neighbours,
    lift_tags,
    lift_titles,
    lift_verbatim,
)
from mcp_server_qdrant.search.understand import Query

BASES: dict[Priority, float] = {"natural": 1.0, "soft": 1.1, "medium": 1.25, "hard": 1.5}
DAY = timedelta(days=1)
LONGEST = 5  # versions that superseded one another
SUPERSEDED = 0.01  # the factor of one that is
TAIL = 0.25  # of the best relevance

# Of spelling: the least and the most that counts, the hits and the characters that are compared.
LEAST = 70.0
MOST_FUZZY = 0.2
FUZZY_POOL = 60
SHORTEST = 8
QUERY, TEXT = 62, 200  # where both have more than 64 the ratio takes a hundred times as long

# Of copies: marks of Markdown, and signs before and after a word.
MARKUP = re.compile(r"^[ \t]*(?:[#>*+•|-]+[ \t]+)+", re.MULTILINE)
QUOTES = "\"'`*«»„“”\u201a\u2018\u2019"
BEFORE, AFTER = f"{QUOTES}([{{¿¡", f"{QUOTES})]}}.,;:!…"
SIGNS = (string.punctuation + string.whitespace).encode()

TextKey = tuple[str, PointId]  # its collection, and its own id or that of its point


def candidates(found: Iterable[Scored], query: Query) -> list[Hit]:
    """All candidates as one ranking, best first."""
    hits = calibrate(found, query.terms, query.alpha)
    hits = lift_tags(hits, query.tags, query.words, query.alpha)
    return boost(hits, query.rules.order, query.request.priority)


def rank(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """The best candidates, with their documents, as one hit per text, best first."""
    request, rules = query.request, query.rules
    with recorder().phase("rank"):
        hits = lift_titles(hits, query.words, query.alpha)
        hits = lift_verbatim(hits, query.exact, query.words, query.alpha)
        hits = group(hits)
        hits = lift_neighbours(hits)
        hits = decay(hits, request.recency_weight, rules.decay, rules.time_fields, query.now)
        hits = retire(hits)
        shown = len(hits) if request.rerank else query.limit
        return fold(hits, shown, likeness_factor(100, query.likeness))


def finish(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """The hits that may be shown, in their final order; `hits` as a reranker left them.

    Spelling does not count beside a reranker that read the texts.
    """
    if not any(hit.reranked is not None for hit in hits):
        hits = fuzzy(hits, query.terms.query, query.likeness, query.limit)
    return cut(hits, query.request.score_threshold)


def boost(hits: Iterable[Hit], order: Sequence[str], level: Priority) -> list[Hit]:
    """The hits, best first, with the factor of their collection where the operator prefers it.

        factor = base ** (len(order) - position)      position counts from 0

    for collections in the order; 1 for all others. `natural` changes nothing. Source: DESIGN 6.
    """
    base = BASES[level]
    factors = {name: base ** (len(order) - place) for place, name in enumerate(order)}
    if base == 1.0 or not factors:
        return list(hits)
    return by_score(
        hit.rescored("priority", factors[hit.collection]) if hit.collection in factors else hit
        for hit in hits
    )


def group(hits: Iterable[Hit]) -> list[Hit]:
    """The first hit of each document, in the order given, with the others as its parts."""
    documents: dict[TextKey, list[Hit]] = {}
    for hit in hits:
        documents.setdefault(key_of(hit), []).append(hit)
    return [
        first._replace(parts=tuple(others)) if others else first
        for first, *others in documents.values()
    ]


def key_of(hit: Hit) -> TextKey:
    """The text that a hit is of; points of other tools are texts of their own."""
    return hit.collection, hit.own or hit.id


def decay(
    hits: Sequence[Hit], weight: float, rate: float, fields: tuple[str, ...], now: datetime
) -> list[Hit]:
    """The hits with the factor of their age, best first. Weight 0 gives them back as they are.

        factor = 1 - w + w * exp(-rate * days)

    so that age alone never costs more than w. A rate of 0.01 a day is a half-life of 69 days.
    `fields` are where a payload may keep its time: paths such as `created_at` or `meta.date`;
    without a dot one is also looked for below `metadata`. A time in the future counts as now; a hit
    without a time keeps its score, and so does a text of a file that gives no date.
    """
    if weight <= 0:
        return list(hits)
    paths = [path.split(".") for path in date_paths(fields)]

    def aged(hit: Hit) -> Hit:
        when = age_from(hit.payload, paths)
        return hit if when is None else hit.rescored("recency", aging(now - when, weight, rate))

    return by_score(map(aged, hits))


def aging(age: timedelta, weight: float, rate: float) -> float:
    """The part of a score that is left at this age; in [1 - weight, 1]."""
    return 1 - weight + weight * math.exp(-rate * max(age / DAY, 0.0))


def retire(hits: Sequence[Hit]) -> list[Hit]:
    """The hits, one per text, best first; a successor stands in the place of what it supersedes.

    The superseded text itself ranks behind all others; its relevance stays.
    """
    following = {key_of(hit): new for hit in hits if (new := successor_of(hit))}
    if not following:
        return list(hits)
    current = {key_of(hit): hit for hit in hits if key_of(hit) not in following}
    retired: list[Hit] = []
    for hit in hits:
        key = key_of(hit)
        if key not in following:
            continue
        retired.append(hit.rescored("superseded", SUPERSEDED))
        by = following[key]
        for _ in range(LONGEST):
            key = following.get(key, key)
        heir = current.get(key)
        if heir is None:
            continue
        if by == key and heir.supersedes is None:
            heir = heir._replace(supersedes=document_id(hit.document))
        if hit.score > heir.score:
            relevance = max(hit.relevance, heir.relevance)
            heir = heir._replace(score=hit.score, relevance=relevance)
        current[key] = heir
    return by_score([*current.values(), *retired])


def successor_of(hit: Hit) -> TextKey | None:
    """The text that supersedes this one."""
    if not (hit.payload or {}).get(SUPERSEDED_KEY):
        return None
    by, place = hit.document.superseded_by, hit.document.superseded_in
    return (place or hit.collection, by) if by else None


def fold(hits: Sequence[Hit], shown: int, gain: float = 1.0) -> list[Hit]:
    """The hits, of each passage the best, which names the places of the others (`also`).

    Two passages are the same where they differ in nothing but capital initials, white space,
    punctuation and Markdown: one word, one digit or one sign more or less, and they are two. Titles
    agree in their numbers.
    The order stays. Hits without a text are all kept. Those that no factor up to `gain` could lift
    among the best `shown` are not read.
    """
    kept: list[Hit] = []
    alike: dict[bytes, list[int]] = {}  # places of those that may be the same
    for number, hit in enumerate(hits):
        if len(kept) >= shown > 0 and hit.score * gain < kept[shown - 1].score:
            return [*kept, *hits[number:]]
        passage = hit.document
        near = [] if passage.textless else alike.setdefault(_bare(passage.text), [])
        place = next((n for n in near if _same(passage, kept[n].document)), None)
        if place is None:
            near.append(len(kept))
            kept.append(hit)
        else:
            also = (*kept[place].also, hit._replace(also=()), *hit.also)
            kept[place] = kept[place]._replace(also=also)
    return kept


def _bare(text: str) -> bytes:
    """The text without signs and capitals, and without letters beyond ASCII: quick to make."""
    return text.encode("ascii", "ignore").translate(None, SIGNS).lower()


def _same(first: Document, second: Document) -> bool:
    if not first.text.strip():
        return False
    if first.title and second.title and _marks(first.title) != _marks(second.title):
        return False
    own = plain_words(first.text)
    return first.text == second.text or (bool(own) and own == plain_words(second.text))


def plain_words(text: str) -> list[str]:
    """The words of a text without the differences that copies may have.

    Signs inside a word and before a number stay, as does the case of all but ordinary words: "-5",
    "10.0.0.1", "C++", "MB" and "userID" are words of their own.
    """
    unmarked = MARKUP.sub("", unicodedata.normalize("NFC", text))
    bare = (word.lstrip(BEFORE).rstrip(AFTER) for word in unmarked.split())
    return [
        word.lower() if word[1:].islower() and word.isalpha() else word for word in bare if word
    ]


def _marks(title: str) -> list[str]:
    """The words of a title that are not letters only: they tell similar titles apart."""
    return [word for word in plain_words(title) if not word.isalpha()]


def fuzzy(
    hits: Sequence[Hit],
    query: str,
    weight: float,
    shown: int = FUZZY_POOL,
) -> list[Hit]:
    """The hits, best first, with a factor where title or text is spelled like the query.

        factor = 1 + min(w, 0.2) * (alike - 70) / 30        where alike is at least 70, else 1

    `alike` in [0, 100] is rapidfuzz's partial_ratio of the query to the title, or to the beginning
    of the text, whichever is higher, with the words of both in alphabetical order: a query that is
    a piece of the other, spelled almost like it. A text of less than half the query's length is not
    compared, nor is a query of fewer than 8 characters: they are pieces of too many words. A score
    that is a fifth lower is never lifted over a higher one. Of rapidfuzz's ratios this helped
    queries that are pieces of titles and harmed none: benchmarks/ranking/typos.py.
    Hits that no factor could lift among the best `shown` are left as they are.
    """
    words = ordered(query, QUERY)
    if weight <= 0 or len(words) < SHORTEST + 2:
        return list(hits)
    least = hits[shown - 1].score if 0 < shown <= len(hits) else 0.0
    most = likeness_factor(100, weight)
    reach = next((n for n, hit in enumerate(hits) if hit.score * most < least), FUZZY_POOL)
    pool = min(reach, FUZZY_POOL)
    compared = [_compared(hit, words, weight) for hit in hits[:pool]]
    return by_score([*compared, *hits[pool:]])


def _compared(hit: Hit, query: str, weight: float) -> Hit:
    texts = (hit.document.title or "", hit.document.text)
    similarity = max(alike(query, ordered(text, TEXT)) for text in texts)
    if similarity < LEAST:
        return hit
    return hit.rescored("fuzzy", likeness_factor(similarity, weight))


def ordered(text: str, length: int) -> str:
    """The words of the text's beginning in alphabetical order, in lower case, between spaces."""
    return f" {' '.join(sorted(utils.default_process(text[:TEXT])[:length].split()))} "


def alike(query: str, text: str) -> float:
    """The likeness of an ordered query to a piece of an ordered text: 70 to 100, or 0."""
    if 2 * len(text) < len(query):
        return 0.0
    return fuzz.partial_ratio(query, text, score_cutoff=LEAST)


def likeness_factor(similarity: float, weight: float) -> float:
    """The factor of a similarity of at least 70, in [1, 1.2]."""
    return 1 + min(weight, MOST_FUZZY) * (similarity - LEAST) / (100 - LEAST)


def cut(hits: Sequence[Hit], threshold: float | None) -> list[Hit]:
    """The hits that may be shown, in their order; `threshold` as the caller gave it.

    Relevance equal to the threshold is enough. Without one, the tail is left out: what has less
    than a quarter of the best relevance, unless a reranker places it near its best.
    """
    if threshold is not None:
        return [hit for hit in hits if hit.relevance >= threshold]
    least = TAIL * max((hit.relevance for hit in hits), default=0.0)
    near = TAIL * max((hit.reranked or 0.0 for hit in hits), default=0.0) if least > 0 else 0.0
    return [hit for hit in hits if hit.relevance >= least or (hit.reranked or 0.0) >= near > 0]
