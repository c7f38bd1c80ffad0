"""The order of the ranking steps, and the steps that change only the score.

A factor multiplies the score and leaves the relevance unchanged.
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
from mcp_server_qdrant.core.find import TAIL
from mcp_server_qdrant.core.notation import date_paths, document_id
from mcp_server_qdrant.search.relevance import (
    Hit,
    by_score,
    calibrate,
    lift_neighbours,
    lift_tags,
    lift_titles,
    lift_verbatim,
    series_of,
)
from mcp_server_qdrant.search.speakers import by_speaker
from mcp_server_qdrant.search.understand import Query

BASES: dict[Priority, float] = {"natural": 1.0, "soft": 1.1, "medium": 1.25, "hard": 1.5}
DAY = timedelta(days=1)
LONGEST = 5  # longest chain of supersessions that is followed
SUPERSEDED = 0.01  # factor of a superseded text
LENGTH = 0.1  # how much a message of many parts loses; measured (docs/ranking.md)
TEXTLESS = 3  # hits shown if none of them has a text

# Spelling: lowest similarity that counts, highest gain, hits compared, shortest query.
LEAST = 70.0
MOST_FUZZY = 0.2
FUZZY_POOL = 60
SHORTEST = 8
QUERY, TEXT = 62, 200  # characters; if both exceed 64, the ratio is 100 x slower

# Copies: Markdown markup, and punctuation before and after a word.
MARKUP = re.compile(r"^[ \t]*(?:[#>*+•|-]+[ \t]+)+", re.MULTILINE)
QUOTES = "\"'`*«»„“”\u201a\u2018\u2019"
BEFORE, AFTER = f"{QUOTES}([{{¿¡", f"{QUOTES})]}}.,;:!…"
SIGNS = (string.punctuation + string.whitespace).encode()

TextKey = tuple[str, PointId]  # collection, and the document's id or else the point's


def rank_candidates(found: Iterable[Scored], query: Query) -> list[Hit]:
    """Rank all candidates, best first."""
    hits = calibrate(found, query.terms, query.alpha)
    hits = lift_tags(hits, query.tags, query.words, query.alpha)
    return boost_preferred(hits, query.rules.order, query.request.priority)


def rank(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Rank the best candidates, now with their documents: one hit per text, best first."""
    request, rules = query.request, query.rules
    with recorder().phase("rank"):
        hits = lift_titles(hits, query.words, query.alpha)
        hits = lift_verbatim(hits, query.exact, query.words, query.alpha)
        hits = group_parts(hits)
        hits = by_length(lift_neighbours(hits))
        hits = by_speaker(hits, query.terms.query)
        hits = decay_by_age(
            hits, request.recency_weight, request.recency_decay, rules.time_fields, query.now
        )
        hits = promote_successors(hits)
        shown = len(hits) if request.rerank else query.limit
        return merge_copies(hits, shown, spelling_factor(100, query.likeness))


def finish(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """The hits that may be shown, in their final order; `hits` are in the reranker's order.

    Spelling is compared only if no reranker read the texts.
    """
    if not any(hit.reranked is not None for hit in hits):
        hits = boost_spelling(hits, query.terms.query, query.likeness, query.limit)
    return drop_tail(hits, query.request.score_threshold)


def boost_preferred(hits: Iterable[Hit], order: Sequence[str], level: Priority) -> list[Hit]:
    """Multiply by the factor of the operator's preferred collections; best first.

        factor = base ** (len(order) - position)      position counts from 0

    for collections in the order; 1 for all others. `natural` changes nothing.
    """
    base = BASES[level]
    factors = {name: base ** (len(order) - place) for place, name in enumerate(order)}
    if base == 1.0 or not factors:
        return list(hits)
    return by_score(
        hit.rescored("priority", factors[hit.collection]) if hit.collection in factors else hit
        for hit in hits
    )


def group_parts(hits: Iterable[Hit]) -> list[Hit]:
    """One hit per document, its best; the document's other hits become `parts`."""
    documents: dict[TextKey, list[Hit]] = {}
    for hit in hits:
        documents.setdefault(key_of(hit), []).append(hit)
    return [
        first._replace(parts=tuple(others)) if others else first
        for first, *others in documents.values()
    ]


def key_of(hit: Hit) -> TextKey:
    """The key of the hit's text; each point of another tool is a text of its own."""
    return hit.collection, hit.own or hit.id


def by_length(hits: Sequence[Hit]) -> list[Hit]:
    """Multiply each message of several parts by parts ** -0.1; best first.

    A message ranks by its best part, and the best of many is good by chance. This applies to
    numbered series: the parts of a file or a note are about different things.
    """
    return by_score(
        hit.rescored("length", parts**-LENGTH)
        if series_of(hit) and (parts := hit.document.chunks) > 1
        else hit
        for hit in hits
    )


def decay_by_age(
    hits: Sequence[Hit], weight: float, rate: float, fields: tuple[str, ...], now: datetime
) -> list[Hit]:
    """Multiply by the factor of the hit's age; best first. Weight 0 changes nothing.

        factor = 1 - w + w * exp(-rate * days)

    so that age alone never costs more than w. A rate of 0.01 per day is a half-life of 69 days.
    `fields` are payload paths of dates, such as `created_at` or `meta.date`; a path without a dot
    is also tried below `metadata`. A date in the future counts as now. A hit without a date keeps
    its score; a file's modification time is not a date.
    """
    if weight <= 0:
        return list(hits)
    paths = [path.split(".") for path in date_paths(fields)]

    def aged(hit: Hit) -> Hit:
        when = age_from(hit.payload, paths)
        if when is None:
            return hit
        return hit.rescored("recency", recency_factor(now - when, weight, rate))

    return by_score(map(aged, hits))


def recency_factor(age: timedelta, weight: float, rate: float) -> float:
    """The recency factor of this age, in [1 - weight, 1]."""
    return 1 - weight + weight * math.exp(-rate * max(age / DAY, 0.0))


def promote_successors(hits: Sequence[Hit]) -> list[Hit]:
    """Give each successor the rank of the text that it supersedes; best first.

    The superseded text ranks behind all others; its relevance is unchanged.
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
    """The key of the text that supersedes this one, or None."""
    if not (hit.payload or {}).get(SUPERSEDED_KEY):
        return None
    by, place = hit.document.superseded_by, hit.document.superseded_in
    return (place or hit.collection, by) if by else None


def merge_copies(hits: Sequence[Hit], shown: int, gain: float = 1.0) -> list[Hit]:
    """Merge copies of a passage into the best hit, which lists the others in `also`.

    Copies may differ only in initial capitals, white space, punctuation and Markdown; any other
    word, digit or sign makes them different, and so do different numbers in their titles. The order
    is unchanged. Hits without a text are dropped if others have one; otherwise a few are kept.
    Hits that no factor up to `gain` could raise into the best `shown` are not compared.
    """
    kept, bare = list[Hit](), list[Hit]()
    alike: dict[bytes, list[int]] = {}  # indices of possible copies
    for number, hit in enumerate(hits):
        if len(kept) >= shown > 0 and hit.score * gain < kept[shown - 1].score:
            return [*kept, *hits[number:]]
        passage = hit.document
        if passage.textless:
            bare.append(hit)
            continue
        near = alike.setdefault(_bare(passage.text), [])
        place = next((n for n in near if _same(passage, kept[n].document)), None)
        if place is None:
            near.append(len(kept))
            kept.append(hit)
        else:
            also = (*kept[place].also, hit._replace(also=()), *hit.also)
            kept[place] = kept[place]._replace(also=also)
    return kept or bare[:TEXTLESS]


def _bare(text: str) -> bytes:
    """A cheap key for copies: lower-case ASCII letters and digits only."""
    return text.encode("ascii", "ignore").translate(None, SIGNS).lower()


def _same(first: Document, second: Document) -> bool:
    if not first.text.strip():
        return False
    if first.title and second.title and _marks(first.title) != _marks(second.title):
        return False
    own = plain_words(first.text)
    return first.text == second.text or (bool(own) and own == plain_words(second.text))


def plain_words(text: str) -> list[str]:
    """The words of a text, normalised so that copies agree.

    Signs inside a word and before a number stay, and so does the case of anything but plain words:
    "-5", "10.0.0.1", "C++", "MB" and "userID" keep their form.
    """
    unmarked = MARKUP.sub("", unicodedata.normalize("NFC", text))
    bare = (word.lstrip(BEFORE).rstrip(AFTER) for word in unmarked.split())
    return [
        word.lower() if word[1:].islower() and word.isalpha() else word for word in bare if word
    ]


def _marks(title: str) -> list[str]:
    """The words of a title with digits or signs, which distinguish similar titles."""
    return [word for word in plain_words(title) if not word.isalpha()]


def boost_spelling(
    hits: Sequence[Hit],
    query: str,
    weight: float,
    shown: int = FUZZY_POOL,
) -> list[Hit]:
    """Multiply by a factor if title or text is spelled like the query; best first.

        factor = 1 + min(w, 0.2) * (alike - 70) / 30        where alike is at least 70, else 1

    `alike` in [0, 100] is rapidfuzz's partial_ratio of the query to the title or the beginning of
    the text, whichever is higher, with the words of both sorted. Texts of less than half the
    query's length, and queries of fewer than 8 characters, are not compared: they match parts of
    too many words. The factor is at most 1.2, so it cannot overturn a clear gap. Of rapidfuzz's
    ratios this one helped queries that are parts of titles and harmed none
    (benchmarks/ranking/typos.py). Hits that no factor could raise into the best `shown` are
    unchanged.
    """
    words = sorted_words(query, QUERY)
    if weight <= 0 or len(words) < SHORTEST + 2:
        return list(hits)
    least = hits[shown - 1].score if 0 < shown <= len(hits) else 0.0
    most = spelling_factor(100, weight)
    reach = next((n for n, hit in enumerate(hits) if hit.score * most < least), FUZZY_POOL)
    pool = min(reach, FUZZY_POOL)
    compared = [_compared(hit, words, weight) for hit in hits[:pool]]
    return by_score([*compared, *hits[pool:]])


def _compared(hit: Hit, query: str, weight: float) -> Hit:
    texts = (hit.document.title or "", hit.document.text)
    similarity = max(spelling_similarity(query, sorted_words(text, TEXT)) for text in texts)
    if similarity < LEAST:
        return hit
    return hit.rescored("fuzzy", spelling_factor(similarity, weight))


def sorted_words(text: str, length: int) -> str:
    """The words of the text's beginning, lower case and sorted, between spaces."""
    return f" {' '.join(sorted(utils.default_process(text[:TEXT])[:length].split()))} "


def spelling_similarity(query: str, text: str) -> float:
    """The partial_ratio of a sorted query and a sorted text: 70 to 100, or 0."""
    if 2 * len(text) < len(query):
        return 0.0
    return fuzz.partial_ratio(query, text, score_cutoff=LEAST)


def spelling_factor(similarity: float, weight: float) -> float:
    """The factor of a similarity of at least 70, in [1, 1.2]."""
    return 1 + min(weight, MOST_FUZZY) * (similarity - LEAST) / (100 - LEAST)


def drop_tail(hits: Sequence[Hit], threshold: float | None) -> list[Hit]:
    """The hits that may be shown, in their order; `threshold` is the caller's.

    Without a threshold the tail is dropped: hits with less than a quarter of the best relevance,
    unless a reranker scored them near its best.
    """
    if threshold is not None:
        return [hit for hit in hits if hit.relevance >= threshold]
    least = TAIL * max((hit.relevance for hit in hits), default=0.0)
    near = TAIL * max((hit.reranked or 0.0 for hit in hits), default=0.0) if least > 0 else 0.0
    return [hit for hit in hits if hit.relevance >= least or (hit.reranked or 0.0) >= near > 0]
