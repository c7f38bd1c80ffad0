"""Sorts texts about the same subject by date, newest first, and marks them.

Only short texts that fit the query about equally well, share words and have similar vectors swap
places, and only with each other. Measured: docs/ranking.md.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.dates import MONTHS, WEEKDAYS, date_of
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.subjects import above_unrelated, unrelated_cosine
from mcp_server_qdrant.search.relevance import Hit, series_of
from mcp_server_qdrant.search.retrieve import Fetch
from mcp_server_qdrant.search.speakers import speaker_of
from mcp_server_qdrant.search.understand import Query

POOL = 10  # hits that are compared
SAME = 0.55  # cosine of texts about the same subject, if both fit the query
CLOSE = 0.75  # cosine of texts that differ in a word or a number
ANSWERS = 0.65  # share of the best one's cosine to the query
WORDS = 3  # one word in three of the shorter text is shared, or a word of the query
LEAST = 0.4  # share of the best one's score

Place = tuple[str, PointId]
Unit = npt.NDArray[np.float32]
_WORD = re.compile(r"\w+")
_CALENDAR = frozenset((*WEEKDAYS, *MONTHS))


async def in_order_of_time(fetch: Fetch, hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Give the newest text about a subject the rank of the best one; best first."""
    least = LEAST * hits[0].score if hits else 0.0
    dated = {
        n: when
        for n, hit in enumerate(hits[: min(query.limit, POOL)])
        if hit.score >= least and (when := _when(hit))
    }
    if len({*dated.values()}) < 2:
        return list(hits)
    terms = {n: frozenset(query.words.tokens(hits[n].document.text)) for n in dated}
    shared = {n for n in dated for m in dated if n != m and terms[n] & terms[m]}
    vectors = await _vectors(fetch, [hits[n] for n in sorted(shared)], query)
    left = [n for n in sorted(shared) if (hits[n].collection, hits[n].id) in vectors]
    floor = unrelated_cosine(hit.dense for hit in hits if hit.dense is not None)
    ordered = list(hits)
    named = _named(query.request.query)
    while left:
        group = _group(left, hits, terms, vectors, floor, query.words.weights)
        left = [n for n in left if n not in group]
        held = named & _named(hits[group[0]].document.text)
        tagged = {*hits[group[0]].tags}  # that the query names
        group = [
            n for n in group if held <= _named(hits[n].document.text) and tagged <= {*hits[n].tags}
        ]
        if len({dated[n] for n in group}) < 2:
            continue
        newest = sorted(group, key=lambda n: dated[n], reverse=True)
        for rank, (slot, n) in enumerate(zip(sorted(group), newest, strict=True)):
            hit, score = hits[n], hits[slot].score
            if hit.score > 0 and score != hit.score:
                hit = hit.rescored("newer", score / hit.score)._replace(score=score)
            mark = "older" if rank else f"newest of {len(group)}"
            ordered[slot] = hit._replace(in_time=mark)
    return ordered


def _named(text: str) -> frozenset[str]:
    """The numbers, weekdays and months in a text, which distinguish similar subjects."""
    words = (word.removesuffix("s") for word in _WORD.findall(text.lower()))
    return frozenset(one for one in words if one in _CALENDAR or any(map(str.isdigit, one)))


def _when(hit: Hit) -> datetime | None:
    """The date of a short text that a later one may have replaced; None for other texts.

    Turns of a conversation and entries of a log do not replace each other.
    """
    one = hit.document
    if hit.dense is None or one.chunks > 1 or one.file is not None or one.heir is not None:
        return None
    if series_of(hit) or speaker_of(one.text):
        return None
    return date_of(one)


def _group(
    left: Sequence[int],
    hits: Sequence[Hit],
    terms: Mapping[int, frozenset[int]],
    vectors: Mapping[Place, Unit],
    floor: float,
    asked: Collection[int],
) -> list[int]:
    """The first of these hits and those about the same subject; `asked` are the query's terms."""

    def like(n: int, m: int) -> float:
        shared = terms[n] & terms[m]
        few = WORDS * len(shared) < min(len(terms[n]), len(terms[m]))
        if few and shared.isdisjoint(asked):
            return 0.0
        first, second = ((hits[one].collection, hits[one].id) for one in (n, m))
        if len(vectors[first]) != len(vectors[second]):
            return 0.0  # vectors of different models
        return above_unrelated(float(vectors[first] @ vectors[second]), floor)

    best = hits[left[0]]
    wanted = ANSWERS * above_unrelated(best.dense or 0.0, floor)
    group, new = [left[0]], [left[0]]
    while new:
        found = []
        for n in left:
            if n in group or n in found or hits[n].score < LEAST * best.score:
                continue
            alike = max(like(n, m) for m in new)
            answers = above_unrelated(hits[n].dense or 0.0, floor) >= wanted
            if alike >= CLOSE or (alike >= SAME and answers):
                found.append(n)
        group, new = [*group, *found], found
    return group


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
