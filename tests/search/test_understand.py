"""A request becomes a query: its legs, their shares, one vector per model."""

import asyncio

import pytest

from mcp_server_qdrant.core.datatypes import DenseLeg, SparseLeg, Target
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.search.understand import (
    dense_share,
    embed,
    narrow_legs,
)
from tests.fakes import FakeEncoder
from tests.support import missing, registry

DENSE = DenseLeg("d", 4, "cosine", "m")
SPARSE = SparseLeg("bm25", idf=True)
BOTH = Target("both", 1, DENSE, SPARSE)
ONLY_DENSE = Target("dense", 1, DENSE, None)
ONLY_SPARSE = Target("sparse", 1, None, SPARSE, note="keywords only: it has no dense vector")


def test_hybrid_search_leaves_the_targets_alone():
    assert [narrow_legs(one, "hybrid") for one in (BOTH, ONLY_DENSE)] == [BOTH, ONLY_DENSE]


def test_semantic_and_keyword_search_use_one_leg_each():
    semantic, keyword = narrow_legs(BOTH, "semantic"), narrow_legs(BOTH, "keyword")

    assert narrow_legs(BOTH, "fuzzy") == keyword
    assert (semantic.dense, semantic.sparse) == (DENSE, None)
    assert (keyword.dense, keyword.sparse) == (None, SPARSE)
    assert (semantic.note, keyword.note) == (None, None)


def test_a_collection_without_the_leg_has_none_left_and_says_why():
    keyword, semantic = narrow_legs(ONLY_DENSE, "keyword"), narrow_legs(ONLY_SPARSE, "semantic")

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


def target(name: str, model: str | None) -> Target:
    leg = DenseLeg("v", 64, "cosine", model) if model else None
    return Target(name, 1, leg, None)


async def test_a_query_is_encoded_once_for_each_model():
    one, other = FakeEncoder("one"), FakeEncoder("other", size=8)
    targets = [target(name, "one") for name in "abc"] + [target("d", "other"), target("e", None)]

    vectors = await embed("some words", targets, registry(one, other).encode_query)

    assert set(vectors.dense) == {"one", "other"}
    assert vectors.failures == {}
    assert (one.queries, other.queries) == (["some words"], ["some words"])
    assert len(vectors.dense["other"]) == 8
    assert isinstance(vectors.dense["one"], list)  # qdrant-client takes no tuple


async def test_models_encode_at_the_same_time():
    one, other = FakeEncoder("one"), FakeEncoder("other")
    one.gate, other.gate = asyncio.Event(), asyncio.Event()
    both = asyncio.ensure_future(
        embed("q", [target("a", "one"), target("b", "other")], registry(one, other).encode_query)
    )
    other.gate.set()
    while not other.queries:
        await asyncio.sleep(0)

    assert not both.done()

    one.gate.set()

    assert set((await both).dense) == {"one", "other"}


async def test_a_model_that_cannot_encode_leaves_its_reason_and_the_other_vectors():
    broken = missing("broken")
    targets = [target("a", "one"), target("b", "broken")]

    vectors = await embed("q", targets, registry(FakeEncoder("one"), broken).encode_query)

    assert set(vectors.dense) == {"one"}
    assert vectors.failures == {"broken": "The model broken is failed."}


async def test_nothing_is_encoded_where_no_collection_has_a_dense_vector():
    encoder = FakeEncoder("one")
    vectors = await embed("q", [target("a", None)], registry(encoder).encode_query)

    assert (vectors.dense, vectors.failures, encoder.queries) == ({}, {}, [])
