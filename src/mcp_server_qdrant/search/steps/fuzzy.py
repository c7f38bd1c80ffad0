"""Hits whose title or text is spelled like the query rank a little higher.

    factor = 1 + min(w, 0.2) * (alike - 70) / 30        where alike is at least 70, else 1

`alike` in [0, 100] is rapidfuzz's partial_ratio of the query to the title, or to the beginning of
the text, whichever is higher, with the words of both in alphabetical order: a query that is a piece
of the other, spelled almost like it. A text of less than half the query's length is not compared,
nor is a query of fewer than 8 characters: they are pieces of too many words. A score that is a
fifth lower is never lifted over a higher one. Of rapidfuzz's ratios this helped queries that are
pieces of titles and harmed none: benchmarks/ranking/typos.py.
"""

from collections.abc import Callable, Sequence

from rapidfuzz import fuzz, utils

from mcp_server_qdrant.core.datatypes import Document, Hit, by_score

LEAST = 70.0
MOST = 0.2
POOL = 60
SHORTEST = 8
# Characters compared. Where both have more than 64 the ratio takes a hundred times as long.
QUERY, TEXT = 62, 200


def fuzzy(
    hits: Sequence[Hit],
    query: str,
    weight: float,
    document: Callable[[Hit], Document],
    shown: int = POOL,
) -> list[Hit]:
    """The hits with their factor, best first; `document` reads one. Weight 0 changes nothing.

    Hits that no factor could lift among the best `shown` are left as they are.
    """
    words = ordered(query, QUERY)
    if weight <= 0 or len(words) < SHORTEST + 2:
        return list(hits)
    cut = hits[shown - 1].score if 0 < shown <= len(hits) else 0.0
    reach = next((n for n, hit in enumerate(hits) if hit.score * factor(100, weight) < cut), POOL)
    pool = min(reach, POOL)
    compared = [_compared(hit, words, weight, document(hit)) for hit in hits[:pool]]
    return by_score([*compared, *hits[pool:]])


def _compared(hit: Hit, query: str, weight: float, document: Document) -> Hit:
    texts = (document.title or "", document.text)
    similarity = max(alike(query, ordered(text, TEXT)) for text in texts)
    return hit.rescored("fuzzy", factor(similarity, weight)) if similarity >= LEAST else hit


def ordered(text: str, length: int) -> str:
    """The words of the text's beginning in alphabetical order, in lower case, between spaces."""
    return f" {' '.join(sorted(utils.default_process(text[:TEXT])[:length].split()))} "


def alike(query: str, text: str) -> float:
    """The likeness of an ordered query to a piece of an ordered text: 70 to 100, or 0."""
    if 2 * len(text) < len(query):
        return 0.0
    return fuzz.partial_ratio(query, text, score_cutoff=LEAST)


def factor(similarity: float, weight: float) -> float:
    """The factor of a similarity of at least 70, in [1, 1.2]."""
    return 1 + min(weight, MOST) * (similarity - LEAST) / (100 - LEAST)
