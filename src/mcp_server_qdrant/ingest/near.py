"""Finds memories that a new text nearly repeats or may correct."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from rapidfuzz import fuzz

from mcp_server_qdrant.core.datatypes import Dense, Document, LegQuery, Target
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import key_of
from mcp_server_qdrant.core.subjects import (
    Statement,
    above_unrelated,
    same_subject,
    unrelated_cosine,
)
from mcp_server_qdrant.ingest.encoding import encoded_text
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.qdrant.write.points import Points

LOOKED_AT = 16  # candidates; the text itself and its parts may be among them
MOST = 3  # memories returned
COSINE = 0.8  # of a near repetition at least
# Similarity of the words, of 100: with some models all texts have cosines of 0.8.
ALIKE = 70
SAME = 95  # the same for a superseded text that is stored again


class Near(NamedTuple):
    """Another memory and its cosine; `heir` is the text that superseded it."""

    document: Document
    cosine: float
    heir: Document | None = None


async def near_memories(
    queries: Queries,
    points: Points,
    tokens: Callable[[str], Collection[int]],
    new: Document,
    targets: Sequence[Target],
    dense: Dense,
) -> tuple[Near, ...]:
    """The nearest memories about the same subject; none if the search fails.

    `dense` is the vector of the new text's first part, `tokens` gives the terms of a text.
    A superseded memory is included only if it says the same.
    """
    try:
        answers, _ = await queries.search(
            [([one], LegQuery(dense, None)) for one in targets], depth=LOOKED_AT, condition=None
        )
        found = [one for answer in answers for one in answer.candidates if one.id != new.id]
        floor = unrelated_cosine(one.dense or 0.0 for one in found)
        cosines = {(one.collection, one.id): one.dense or 0.0 for one in found}
        nearest = sorted(cosines, key=lambda place: -cosines[place])[:LOOKED_AT]
        known: dict[tuple[str, object], Document] = {}
        for name in dict.fromkeys(place for place, _ in nearest):
            ids = [point for place, point in nearest if place == name]
            known |= {(name, one.id): one for one in await points.by_id(name, ids)}
        near: list[Near] = []

        def said(one: Document) -> Statement:
            return Statement(one.text, frozenset(tokens(encoded_text(one))))

        for place in nearest:
            one = known.get(place)
            if one is None or one.chunk or key_of(one) == key_of(new) or len(near) == MOST:
                continue
            cosine = cosines[place]
            alike = fuzz.token_set_ratio(one.text.casefold(), new.text.casefold())
            heir = await points.find_heir(one)
            if heir is not None and (heir.id == new.id or alike < SAME):
                continue
            repeats = cosine >= COSINE and alike >= ALIKE
            if not repeats and one.chunks == new.chunks == 1 and one.file is None:
                repeats = same_subject(said(one), said(new), above_unrelated(cosine, floor))
            if repeats:
                near.append(Near(one, cosine, heir))
    except QdrantMcpError:
        return ()
    return tuple(near)
