"""What is kept of a collection: centres, spreads, words."""

import numpy as np
import pytest

from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.search.sketches import sketch as sketches
from mcp_server_qdrant.search.sketches.sketch import CENTRES, DIMENSIONS, Sketch, about, cosines
from mcp_server_qdrant.search.words.postings import NOWHERE

STEMS = Bm25Encoder().tokens


def sketch(vectors, texts=()) -> Sketch:
    return Sketch.of("m", len(vectors), np.array(vectors, np.float32), texts, STEMS)


def centres(of: Sketch):
    return of.centres * of.scales[:, None]


def test_few_vectors_are_centres_of_their_own_and_many_are_grouped_by_likeness():
    near = [[1.0, 0.0], [0.6, 0.8]]  # their mean (0.8, 0.4) has the square 0.8
    few = sketch([*near, [0.0, -2.0]])
    many = sketch([*near * 16, [0.0, -2.0]])

    assert centres(few).tolist() == pytest.approx(np.array([*near, [0.0, -1.0]]), abs=4e-3)
    assert few.shares.tolist() == pytest.approx([1 / 3] * 3)
    assert few.groups.tolist() == [0, 1, 2]
    assert few.spreads.tolist() == pytest.approx([0] * 3, abs=1e-2)
    assert sum(many.shares) == pytest.approx(1)
    assert centres(many)[many.groups[-1]].tolist() == pytest.approx([0, -1], abs=4e-3)


def test_the_length_of_a_mean_tells_how_far_its_group_spreads(monkeypatch):
    monkeypatch.setattr(sketches, "CENTRES", 2)
    found = sketch([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]])

    assert sorted(found.groups.tolist()) == [0, 0, 1]
    assert sorted(found.shares.tolist()) == pytest.approx([1 / 3, 2 / 3])
    assert max(found.spreads) == pytest.approx((0.2 / DIMENSIONS) ** 0.5, abs=1e-3)


@pytest.mark.parametrize(("count", "most"), [(0, 0), (1, 1), (CENTRES, CENTRES), (200, CENTRES)])
def test_there_are_32_centres_at_most_and_none_without_a_vector(count, most):
    vectors = np.random.default_rng(0).normal(size=(count, 12))
    found = sketch(vectors) if count else sketch(np.zeros((0, 12)))

    assert len(found.shares) == len(found.centres) == len(found.scales) <= most
    assert found.shares.sum() == pytest.approx(min(count, 1))
    assert {*found.groups.tolist()} == {*range(len(found.centres))}


def test_cosines_with_all_centres_are_those_of_the_vectors():
    vectors = np.random.default_rng(1).normal(size=(5, 384)) * 3
    query = np.random.default_rng(2).normal(size=384)
    exact = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)

    assert cosines([sketch(vectors[:2]), sketch(vectors[2:])], query) == pytest.approx(
        exact, abs=2e-3
    )


def test_a_vector_of_no_numbers_counts_in_no_group():
    found = sketch([[np.nan, 1.0], [np.inf, 0.0], [1.0, 0.0]])

    assert centres(found).tolist() == [[1.0, 0.0]]
    assert found.shares.tolist() == [1.0]
    assert found.groups.tolist() == [NOWHERE, NOWHERE, 0]


def test_what_a_collection_is_about_are_the_words_that_others_lack():
    ours = sketch([[1.0]], ["Which roses need water", "The roses climb", "Water them daily"])
    words = {**ours.words, "water": 90}

    assert ours.words["roses"] == 2
    assert "which" not in ours.words
    assert about(ours, words, 10).split(", ")[0] == "roses"
    assert about(ours, words, 10).endswith("water")
