"""What is kept of a collection: centres, spreads, words."""

import numpy as np
import pytest

from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.search.sketches.sketch import CENTRES, DIMENSIONS, Sketch, about

STEMS = Bm25Encoder().tokens


def sketch(vectors, texts=()) -> Sketch:
    return Sketch.of("m", len(vectors), np.array(vectors, np.float32), texts, STEMS)


def test_groups_of_like_vectors_have_a_centre_each_whose_length_tells_their_spread():
    near = [[1.0, 0.0], [0.6, 0.8]]  # their mean (0.8, 0.4) has the square 0.8
    found = sketch([*near * 2, *[[0.0, -2.0]] * 4])

    order = np.argsort(-found.centres[:, 1])
    assert found.centres[order].tolist() == pytest.approx(
        np.array([[0.8, 0.4], [0.0, -1.0]]), abs=1e-3
    )
    assert found.shares[order].tolist() == [0.5, 0.5]
    assert found.spreads[order].tolist() == pytest.approx([(0.2 / DIMENSIONS) ** 0.5, 0], abs=1e-3)


@pytest.mark.parametrize(("count", "centres"), [(0, 0), (1, 1), (7, 1), (8, 2), (200, CENTRES)])
def test_a_centre_stands_for_four_vectors_or_more(count, centres):
    vectors = np.random.default_rng(0).normal(size=(count, 12))
    found = sketch(vectors) if count else sketch(np.zeros((0, 12)))

    assert len(found.shares) == len(found.centres) <= centres
    assert found.shares.sum() == pytest.approx(min(count, 1))


def test_a_vector_of_no_numbers_counts_in_no_group():
    found = sketch([[np.nan, 1.0], [np.inf, 0.0], [1.0, 0.0]])

    assert found.centres.tolist() == [[1.0, 0.0]]
    assert found.shares.tolist() == [1.0]


def test_what_a_collection_is_about_are_the_words_that_others_lack():
    ours = sketch([[1.0]], ["Which roses need water", "The roses climb", "Water them daily"])
    words = {**ours.words, "water": 90}

    assert ours.words["roses"] == 2
    assert "which" not in ours.words
    assert about(ours, words, 10).split(", ")[0] == "roses"
    assert about(ours, words, 10).endswith("water")
