"""Texts beside a better one rank higher: turns of a conversation, entries of a log.

    relevance' = relevance + SHARE * (best - relevance)

with the best relevance of the neighbours that were found, where that is more. An answer often
stands a line or two from the words that it shares with the question. Neighbours are texts of one
collection whose own ids end in numbers that differ by REACH at most, behind the same text and a
colon or a hash: D1:3 and D1:5, log.txt#42 and log.txt#43. Two, since in a conversation the same
person speaks every other turn. No text passes a better neighbour, and the best one gains nothing.
Source of the idea: Fernández, Losada and Azzopardi, "Extending the language modeling framework for
sentence retrieval to include local context", Information Retrieval 14, 2011; share and reach are
measured (docs/ranking.md).
"""

import re
from collections.abc import Callable, Sequence

from mcp_server_qdrant.core.datatypes import Hit, by_score

SHARE = 0.5
REACH = 2

_NUMBERED = re.compile(r"(.*[:#])([0-9]{1,9})", re.DOTALL)

Place = tuple[str, str, int]  # collection, the id up to its number, the number


def lift_neighbours(hits: Sequence[Hit], document: Callable[[Hit], str | None]) -> list[Hit]:
    """The hits, one per text, best first, those beside a better one raised.

    `document` gives the own id of a hit's text.
    """
    places = [_place(hit.collection, document(hit)) for hit in hits]
    known = {place: hit.relevance for place, hit in zip(places, hits, strict=True) if place}
    if len(known) < 2:
        return list(hits)
    return by_score(
        _raised(hit, _best(place, known)) if place else hit
        for place, hit in zip(places, hits, strict=True)
    )


def _place(collection: str, document: str | None) -> Place | None:
    found = _NUMBERED.fullmatch(document) if document else None
    return (collection, found[1], int(found[2])) if found else None


def _best(place: Place, known: dict[Place, float]) -> float:
    collection, series, number = place
    around = range(number - REACH, number + REACH + 1)
    return max(known.get((collection, series, other), 0.0) for other in around)


def _raised(hit: Hit, best: float) -> Hit:
    if best <= hit.relevance:
        return hit
    return hit.lifted("neighbours", hit.relevance + SHARE * (best - hit.relevance))
