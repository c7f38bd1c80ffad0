"""Sorts texts about the same subject by date, newest first, and marks them.

Only short texts swap places, and only with each other. Measured: docs/ranking.md.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.dates import MONTHS, WEEKDAYS, date_of
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.subjects import (
    Statement,
    above_unrelated,
    same_subject,
    unrelated_cosine,
)
from mcp_server_qdrant.search.relevance import Hit, series_of
from mcp_server_qdrant.search.retrieve import Fetch
from mcp_server_qdrant.search.speakers import speaker_of
from mcp_server_qdrant.search.understand import Query

POOL = 10  # hits that are compared
CLOSE = 0.8  # cosine of texts of which the newer one may correct the older one
# Below that, both are about the query, by their share of what the best one has:
WORDS = 0.35  # of the weight of its words of the query
MEANING = 0.85  # or of its cosine to the query
REPEATED = 0.75  # share of the words that records of a series have in common

Place = tuple[str, PointId]
Unit = npt.NDArray[np.float32]
_WORD = re.compile(r"\w+")
_CALENDAR = frozenset((*WEEKDAYS, *MONTHS))


class _Text(NamedTuple):
    """A hit with its place on the page, its date and its unit vector.

    `asked` are its terms of the query, `words` their weight. `meaning` is its cosine to the query.
    """

    slot: int
    hit: Hit
    date: datetime
    vector: Unit
    said: Statement
    asked: frozenset[int]
    words: float
    meaning: float

    def means(self, best: "_Text") -> bool:
        """True if its meaning is about as close to the query as that of the best text."""
        return self.meaning >= MEANING * best.meaning

    def fits(self, best: "_Text") -> bool:
        """True if it matches the query by meaning or by words, as the best text does."""
        return self.words >= WORDS * best.words or self.means(best)


async def in_order_of_time(fetch: Fetch, hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Give the newest text about a subject the rank of the best one; best first."""
    floor = unrelated_cosine(hit.dense for hit in hits if hit.dense is not None)
    texts = await _texts(fetch, hits, query, floor)
    ordered = list(hits)
    while texts:
        group = _group(texts, floor)
        slots = [one.slot for one in group]
        texts = [one for one in texts if one.slot not in slots]
        group = _comparable(group, query)
        if len({one.date for one in group}) < 2:
            continue
        slots = [one.slot for one in group]
        newest = sorted(group, key=lambda one: one.date, reverse=True)
        for rank, (slot, one) in enumerate(zip(slots, newest, strict=True)):
            hit, score = one.hit, hits[slot].score
            if hit.score > 0 and score != hit.score:
                hit = hit.rescored("newer", score / hit.score)._replace(score=score)
            mark = "older" if rank else f"newest of {len(group)}"
            ordered[slot] = hit._replace(in_time=mark)
    return ordered


async def _texts(fetch: Fetch, hits: Sequence[Hit], query: Query, floor: float) -> list[_Text]:
    """The texts that may correct or be corrected, best first; none if all are of one date."""
    pool = hits[: min(query.limit, POOL)]
    dated = {n: when for n, hit in enumerate(pool) if (when := _when(hit, query))}
    if len({*dated.values()}) < 2:
        return []
    vectors = await _vectors(fetch, [hits[n] for n in dated], query)
    # Softer than the idf, which is near 0 for a subject that all texts of a collection have.
    weights = {term: math.log1p(math.exp(idf)) for term, idf in query.words.weights.items()}
    texts = []
    for n, when in dated.items():
        if (vector := vectors.get((hits[n].collection, hits[n].id))) is not None:
            text = hits[n].document.text
            said = Statement(text, frozenset(query.words.tokens(text)))
            asked = said.terms & weights.keys()
            words = sum(weights[term] for term in asked)
            meaning = above_unrelated(hits[n].dense or 0.0, floor)
            texts.append(_Text(n, hits[n], when, vector, said, asked, words, meaning))
    return texts


def _when(hit: Hit, query: Query) -> datetime | None:
    """The date of a short text that a later one may have replaced; None for other texts.

    Turns of a conversation and entries of a log do not replace each other.
    """
    one = hit.document
    if hit.dense is None or one.chunks > 1 or one.file is not None or one.heir is not None:
        return None
    if series_of(hit) or ((speaker := speaker_of(one.text)) and not _asks_of(query, speaker)):
        return None
    return date_of(one)


def _asks_of(query: Query, label: str) -> bool:
    """True if the query has the words of a label in lower case: a subject, not a speaker."""
    words = _WORD.findall(query.request.query)
    lower = " ".join(word for word in words if not word[0].isupper())
    terms = frozenset(query.words.tokens(label))
    return bool(terms) and terms <= frozenset(query.words.tokens(lower))


async def _vectors(fetch: Fetch, hits: Sequence[Hit], query: Query) -> Mapping[Place, Unit]:
    """The unit vectors of these hits; those that cannot be read are left out."""
    legs = {target.collection: target.dense for target in query.targets}
    wanted: dict[str, list[PointId]] = {}
    for hit in hits:
        if legs.get(hit.collection):
            wanted.setdefault(hit.collection, []).append(hit.id)
    asked = [(name, leg, ids) for name, ids in wanted.items() if (leg := legs[name])]
    answers = await fetch.queries.vectors(asked, query.seconds())
    return {
        (name, point): found / (np.linalg.norm(found) or 1.0)
        for (name, _, _), answer in zip(asked, answers, strict=True)
        if not isinstance(answer, QdrantMcpError)
        for point, vector in answer.items()
        for found in (np.asarray(vector, np.float32),)
    }


def _group(texts: Sequence[_Text], floor: float) -> list[_Text]:
    """The best text and those about the same subject, also by way of others; best first."""
    best, *left = texts
    group, new = [best], [best]
    while new:
        found = [one for one in left if any(_corrects(one, other, best, floor) for other in new)]
        slots = [one.slot for one in found]
        left = [one for one in left if one.slot not in slots]
        group, new = [*group, *found], found
    return sorted(group, key=lambda one: one.slot)


def _corrects(one: _Text, other: _Text, best: _Text, floor: float) -> bool:
    """True if the newer of two texts may correct the older one."""
    if not one.said.terms & other.said.terms or len(one.vector) != len(other.vector):
        return False  # of different models
    cosine = above_unrelated(float(one.vector @ other.vector), floor)
    if cosine >= CLOSE or not (one.fits(best) and other.fits(best)):
        return cosine >= CLOSE
    older, newer = sorted((one, other), key=lambda text: text.date)
    asked, means = older.asked | newer.asked, newer.means(best)
    return same_subject(older.said, newer.said, cosine, asked, fits=means)


def _comparable(group: Sequence[_Text], query: Query) -> list[_Text]:
    """The texts that share with the query all that the best one shares: numbers, days, tags, words.

    A newer one that says that something changed may lack words, unless it repeats the best one.
    Others without a word are about something else, such as another person or place.
    """
    best = group[0]
    named = _named(query.request.query) & _named(best.hit.document.text)
    tags = {*best.hit.tags}
    return [
        one
        for one in group
        if named <= _named(one.hit.document.text)
        and tags <= {*one.hit.tags}
        and (one.date <= best.date or best.asked <= one.asked or _changes(one, best))
    ]


def _changes(one: _Text, other: _Text) -> bool:
    """True if a text says that something changed, and is no other record of the same form."""
    mine, terms = one.said.terms, other.said.terms
    return one.said.changed and len(mine & terms) < REPEATED * max(len(mine), len(terms))


def _named(text: str) -> frozenset[str]:
    """The numbers, weekdays and months in a text, which distinguish similar subjects."""
    words = (word.removesuffix("s") for word in _WORD.findall(text.lower()))
    return frozenset(one for one in words if one in _CALENDAR or any(map(str.isdigit, one)))
