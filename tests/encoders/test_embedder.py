"""An encoder with its prefixes and its passages on disk."""

from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.embedder import Embedder
from mcp_server_qdrant.encoders.passages import PassageCache
from mcp_server_qdrant.encoders.prefixes import Prefixes
from mcp_server_qdrant.encoders.registry import Registry
from tests.fakes import FakeEncoder
from tests.support import dense

E5 = Prefixes("query: ", "passage: ")


@pytest.fixture
async def cache(tmp_path: Path):
    cache = PassageCache(tmp_path, 10)
    yield cache
    await cache.close()


async def test_each_text_is_read_after_its_prefix():
    inner = FakeEncoder()
    embedder = Embedder(inner, E5)

    await embedder.encode_query("roses")
    await embedder.encode_documents(["moss", "fern"])

    assert (inner.queries, inner.documents) == (
        ["query: roses"],
        ["passage: moss", "passage: fern"],
    )


async def test_room_is_kept_for_the_prefix():
    assert Embedder(FakeEncoder(), E5).token_limit() == 128 - 3
    assert Embedder(FakeEncoder()).token_limit() == 128


async def test_a_passage_is_encoded_once(cache):
    inner = FakeEncoder()
    embedder = Embedder(inner, cache=cache)

    first = await embedder.encode_documents(["moss", "fern", "moss"])
    second = await embedder.encode_documents(["ivy", "fern"])

    assert inner.documents == ["moss", "fern", "ivy"]
    assert first == [dense("moss"), dense("fern"), dense("moss")]
    assert second == [dense("ivy"), pytest.approx(dense("fern"), abs=1e-7)]


async def test_what_comes_from_the_disk_equals_what_was_made(cache):
    inner = FakeEncoder()
    made = await Embedder(inner, cache=cache).encode_documents(["moss and fern"])
    kept = await Embedder(inner, cache=cache).encode_documents(["moss and fern"])

    assert inner.documents == ["moss and fern"]
    assert kept[0] == pytest.approx(made[0], abs=1e-7)  # kept as float32, which real models make


@pytest.mark.parametrize(
    "other",
    [
        Embedder(FakeEncoder("another/Model")),
        Embedder(FakeEncoder(size=32)),
        Embedder(FakeEncoder(), E5),
    ],
    ids=["name", "size", "prefix"],
)
async def test_vectors_of_other_models_sizes_and_prefixes_are_not_taken(cache, other):
    await Embedder(FakeEncoder(), cache=cache).encode_documents(["moss"])

    await Embedder(other.inner, other.prefixes, cache).encode_documents(["moss"])

    assert len(other.inner.documents) == 1


async def test_what_is_on_disk_needs_no_model(cache):
    inner = FakeEncoder()
    embedder = Embedder(inner, cache=cache)
    made = await embedder.encode_documents(["moss"])
    inner.be("downloading")

    assert await embedder.encode_documents(["moss"]) == [pytest.approx(made[0], abs=1e-7)]
    with pytest.raises(EncoderUnavailable):
        await embedder.encode_documents(["moss", "fern"])


async def test_equal_queries_of_one_owner_are_encoded_once():
    inner = FakeEncoder()
    everyone = Registry(inner, FakeEncoder, query_cache=8)
    red, blue = everyone.for_owner("red"), everyone.for_owner("blue")
    for encoders in (red, red, blue, everyone, red):
        await encoders.encode_query(inner.name, "moss")

    assert inner.queries == ["moss"] * 3
