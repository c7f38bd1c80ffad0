"""Whether the best of a search is a match at all."""

import pytest

from mcp_server_qdrant.search.present import doubt
from mcp_server_qdrant.search.relevance import Hit


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
    assert bool(doubt(hit, alpha)) == weak


def test_the_sentence_says_how_relevant_the_best_is():
    assert doubt(best(0.184), 0.5) == ["Weak matches only: the best has relevance 0.18."]
