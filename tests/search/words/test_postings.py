"""The terms of a small collection, and what they weigh in each of its points."""

from math import log

import pytest

from mcp_server_qdrant.core.maps import Weighed
from mcp_server_qdrant.search.words.postings import NOWHERE, Postings

POINTS = [
    Weighed([7, 3_000_000_000], [2.0, 1.0], 0),
    Weighed([7], [0.5], 1),
    Weighed([], [], 2),
    Weighed([7, 9], [1.0, 1.0], None),
]


def test_the_idf_is_that_of_the_points_that_have_terms():
    found = Postings.of(POINTS)

    assert found.documents == 3
    assert found.idf([9, 7, 8, 3_000_000_000]) == pytest.approx(
        {9: log(4 / 1.5), 7: log(4 / 3.5), 3_000_000_000: log(4 / 1.5)}
    )


def test_scores_are_sums_of_products_to_a_255th_of_the_largest_weight():
    scores = Postings.of(POINTS).scores({7: 3.0, 3_000_000_000: 1.0, 8: 5.0})

    assert scores[[0, 1, 2, NOWHERE]].tolist() == pytest.approx([7.0, 1.5, 0, 3.0], abs=0.02)


def test_a_collection_without_terms_has_none():
    found = Postings.of([])

    assert (found.documents, found.idf([7]), found.scores({7: 1.0}).max()) == (0, {}, 0)
