"""Hits whose title or text reads like the query rank a little higher.

    factor = 1 + min(w, 0.2) * (alike - 70) / 30        where alike is at least 70, else 1

`alike` in [0, 100] is rapidfuzz's partial_token_sort_ratio of the query to the title, or to the
beginning of the text, whichever is higher: the words of both in alphabetical order, spelled alike.
A score that is a fifth lower is never lifted over a higher one. Of rapidfuzz's ratios this one
helps queries that are pieces of titles most and harms none: benchmarks/ranking/typos.py.
"""

from collections.abc import Callable, Sequence

from rapidfuzz import fuzz, utils

from mcp_server_qdrant.datatypes import Document, Hit, by_score

LEAST = 70.0
MOST = 0.2
POOL = 60
# Characters compared. Beyond 64 of the query the ratio takes a hundred times as long.
QUERY, TEXT = 64, 200


def fuzzy(
    hits: Sequence[Hit], query: str, weight: float, document: Callable[[Hit], Document]
) -> list[Hit]:
    """The hits with their factor, best first; `document` reads one. Weight 0 changes nothing."""
    asked = utils.default_process(query)[:QUERY]
    if weight <= 0 or not asked:
        return list(hits)
    compared = [_compared(hit, asked, weight, document(hit)) for hit in hits[:POOL]]
    return by_score([*compared, *hits[POOL:]])


def _compared(hit: Hit, asked: str, weight: float, document: Document) -> Hit:
    similarity = max(alike(asked, document.title or ""), alike(asked, document.text))
    return hit.rescored("fuzzy", factor(similarity, weight)) if similarity >= LEAST else hit


def alike(asked: str, text: str) -> float:
    """How much the beginning of a text reads like the query: 70 to 100, or 0."""
    beginning = utils.default_process(text[:TEXT])
    return fuzz.partial_token_sort_ratio(asked, beginning, score_cutoff=LEAST)


def factor(similarity: float, weight: float) -> float:
    """What a similarity of at least 70 gives, in [1, 1.2]."""
    return 1 + min(weight, MOST) * (similarity - LEAST) / (100 - LEAST)
