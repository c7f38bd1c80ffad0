"""Titles are compared where the BM25 vector does not hold them."""

import pytest

from mcp_server_qdrant.search.relevance import Hit, lift_titles
from mcp_server_qdrant.search.words.terms import Terms, Words
from tests.support import (
    find,
    memory_services,
    read_hit,
)

WORDS = {"roses": 1, "sun": 2, "moss": 3}
TERMS = Terms("roses sun", {1: 3.0, 2: 1.0}, {})


def lifted(hits: list[Hit], alpha: float = 0.5) -> list[Hit]:
    def tokens(text: str) -> list[int]:
        return [WORDS[w] for w in text.lower().split() if w in WORDS]

    return lift_titles(hits, Words(TERMS, lambda _: tokens), alpha)


def hit(point: int, value: float, *, sparse: float | None = 1.0, **payload) -> Hit:
    return read_hit(Hit("c", point, value, value, 0.01, 0.6, sparse, payload))


def test_a_title_lifts_by_the_part_of_the_query_it_holds():
    (raised,) = lifted([hit(1, 0.4, title="Roses")])

    assert raised.relevance == pytest.approx(0.475)  # 0.4 + 0.5 * 0.2 * 3/4
    assert raised.gains == (("title", pytest.approx(0.075)),)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"title": ""},
        {"title": "Moss"},
        {"title": 7},
        # Of a text of ours, BM25 has the title already.
        {"title": "Roses", "doc": {"id": "d", "chunk": 0, "chunks": 1}},
    ],
)
def test_other_hits_stay_as_they_are(payload):
    assert lifted([hit(1, 0.4, **payload)]) == [hit(1, 0.4, **payload)]


def test_pure_meaning_leaves_hits_and_order_alone():
    hits = [hit(1, 0.3, title="Roses"), hit(2, 0.4)]

    assert lifted(hits, alpha=1.0) == hits


async def test_a_stored_title_outranks_the_same_match_in_the_text():
    """The two texts have the same words in all, so that only their places tell them apart."""
    from tests.support import remember

    async with memory_services() as services:
        await remember(services, "notes", "harbour gate and pier", title="Morning")
        await remember(services, "notes", "morning gate and pier", title="Harbour")
        page = await find(services, "harbour", "notes")

    assert [result.document.title for result in page.results] == ["Harbour", "Morning"]
    assert page.results[0].relevance > page.results[1].relevance
