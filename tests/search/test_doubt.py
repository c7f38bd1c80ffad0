"""Whether the best of a search is a match at all."""

import pytest

from mcp_server_qdrant.core.sentences import tokens
from mcp_server_qdrant.search.present import weak_notes
from mcp_server_qdrant.search.relevance import Hit
from tests.support import memory_server, said


def best(relevance: float, dense: float | None = 0.2, sparse: float | None = 1.0, **fields) -> Hit:
    return Hit("notes", 1, relevance, relevance, 0.03, dense, sparse, **fields)


@pytest.mark.parametrize(
    ("hit", "alpha", "weak"),
    [
        (best(0.25), 0.5, True),  # 0.5 * 0.36 + 0.5 * 0.16 = 0.26
        (best(0.27), 0.5, False),
        (best(0.23), 0.4, True),  # 0.4 * 0.36 + 0.6 * 0.16 = 0.24
        (best(0.25), 0.4, False),
        (best(0.35, sparse=None), 0.4, True),  # vectors alone
        (best(0.37, sparse=None), 0.4, False),
        (best(0.15, dense=None), 0.4, True),  # words alone
        (best(0.17, dense=None), 0.4, False),
        (best(0.1, reranked=0.6), 0.4, False),  # a model that read the text trusts it
        (best(0.1, reranked=0.4), 0.4, True),
        (None, 0.4, False),
    ],
)
def test_a_match_is_weak_below_what_the_legs_that_were_searched_can_be_trusted_with(
    hit, alpha, weak
):
    assert bool(weak_notes(hit, alpha)) == weak


def test_the_sentence_says_how_relevant_the_best_is():
    assert weak_notes(best(0.184), 0.5) == ["Weak matches only: the best has relevance 0.18."]


async def test_a_page_whose_answer_is_elsewhere_is_shorter_than_one_with_an_answer():
    words = ["harbour", "mast", "crane", "rope", "anchor", "captain", "sail", "buoy"]
    async with memory_server(collection_name="garden") as client:
        for number, word in enumerate(words):
            own = f"docs/the-harbour/{word}-of-the-pier.md"
            text = f"The {word} of pier {number} was painted again. " * 12
            about = {
                "title": f"On the {word} and what became of it",
                "collection_name": "garden",
                "id": own,
            }
            await client.call_tool("qdrant-store", {"information": text} | about)
        far = {"information": "zeppelin prices", "collection_name": "ships", "create": True}
        await client.call_tool("qdrant-store", far)
        weak = await client.call_tool("qdrant-find", {"query": "zeppelin prices of 1923 painted"})
        good = await client.call_tool("qdrant-find", {"query": "the harbour of pier 0 painted"})

    assert said(weak).startswith("1. [0.")
    assert "] elsewhere: ships (id " in said(weak)
    assert "Weak matches only" not in said(weak)
    assert tokens(said(weak)) <= 300 < tokens(said(good))
