"""Which legs are searched, and their shares."""

import pytest

from mcp_server_qdrant.core.datatypes import DenseLeg, SparseLeg, Target
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.search.algorithm import (
    LEAST_WEIGHT,
    dense_share,
    fusion_weights,
    narrowed,
)

DENSE = DenseLeg("d", 4, "cosine", "m")
SPARSE = SparseLeg("bm25", idf=True)
BOTH = Target("both", 1, DENSE, SPARSE)
ONLY_DENSE = Target("dense", 1, DENSE, None)
ONLY_SPARSE = Target("sparse", 1, None, SPARSE, note="keywords only: it has no dense vector")


def test_hybrid_search_leaves_the_targets_alone():
    assert narrowed([BOTH, ONLY_DENSE], "hybrid") == [BOTH, ONLY_DENSE]


def test_semantic_and_keyword_search_use_one_leg_each():
    (semantic,), (keyword,) = narrowed([BOTH], "semantic"), narrowed([BOTH], "keyword")

    assert (semantic.dense, semantic.sparse) == (DENSE, None)
    assert (keyword.dense, keyword.sparse) == (None, SPARSE)
    assert (semantic.note, keyword.note) == (None, None)


def test_a_collection_without_the_leg_has_none_left_and_says_why():
    (keyword,), (semantic,) = narrowed([ONLY_DENSE], "keyword"), narrowed([ONLY_SPARSE], "semantic")

    assert (keyword.dense, keyword.sparse) == (None, None)
    assert keyword.note == "keyword search needs a bm25 vector, and it has none"
    assert (semantic.dense, semantic.sparse) == (None, None)
    assert semantic.note == "keywords only: it has no dense vector"


@pytest.mark.parametrize(
    ("semantic", "keyword", "share"),
    [
        (None, None, None),
        (0.7, 0.3, 0.7),
        (0.2, 0.2, 0.5),
        (0.7, None, 0.7),
        (None, 0.4, 0.6),
        (1.0, None, 1.0),
        (0.0, None, 0.0),
        (0.0, 0.5, 0.0),
    ],
)
def test_weights_are_shares_whatever_their_sum(semantic, keyword, share):
    assert dense_share(semantic, keyword) == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    ("semantic", "keyword", "sentence"),
    [
        (0.7, 0.5, "Weights must not add up to more than 1."),
        (0.0, 0.0, "One of the weights must be above 0."),
    ],
)
def test_weights_that_make_no_sense_are_refused_in_a_sentence(semantic, keyword, sentence):
    with pytest.raises(RequestError) as refused:
        dense_share(semantic, keyword)

    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("share", "weights"),
    [
        (None, None),
        (0.5, (1.0, 1.0)),  # the plain fusion
        (0.7, (1.4, 0.6)),
        (1.0, (2.0, LEAST_WEIGHT)),
        (0.0, (LEAST_WEIGHT, 2.0)),
    ],
)
def test_the_fusion_has_the_weights_that_were_asked_for(share, weights):
    assert fusion_weights(share) == (weights if weights is None else pytest.approx(weights))


def test_weights_of_the_fusion_do_not_depend_on_their_scale():
    assert fusion_weights(dense_share(0.4, 0.2)) == pytest.approx(
        fusion_weights(dense_share(0.6, 0.3))
    )


def test_fuzzy_search_uses_the_keyword_leg():
    (fuzzy,), (without,) = narrowed([BOTH], "fuzzy"), narrowed([ONLY_DENSE], "fuzzy")

    assert (fuzzy.dense, fuzzy.sparse) == (None, SPARSE)
    assert without.note == "fuzzy search needs a bm25 vector, and it has none"
