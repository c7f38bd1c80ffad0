"""One vector per model."""

import asyncio

from mcp_server_qdrant.core.datatypes import DenseLeg, Target
from mcp_server_qdrant.search.embed import begun, embed
from tests.fakes import FakeEncoder
from tests.support import missing, registry


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


async def test_work_that_was_begun_is_used_where_it_is_needed_and_else_ended():
    one, other = FakeEncoder("one"), FakeEncoder("other")
    other.gate = asyncio.Event()
    with begun("q", ["one", "other"], registry(one, other).encode_query) as encode:
        while not one.queries:
            await asyncio.sleep(0)
        vectors = await embed("q", [target("a", "one")], encode)
        again = await embed("q", [target("a", "one")], encode)
    await asyncio.sleep(0)

    assert vectors == again
    assert (one.queries, other.queries) == (["q"], [])


async def test_nothing_is_encoded_where_no_collection_has_a_dense_vector():
    encoder = FakeEncoder("one")
    vectors = await embed("q", [target("a", None)], registry(encoder).encode_query)

    assert (vectors.dense, vectors.failures, encoder.queries) == ({}, {}, [])
