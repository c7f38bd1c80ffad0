"""An encoder with its prefixes, and the queries that it remembers."""

from mcp_server_qdrant.encoders.embedder import Embedder
from mcp_server_qdrant.encoders.prefixes import Prefixes
from mcp_server_qdrant.encoders.registry import Registry
from tests.fakes import FakeEncoder

E5 = Prefixes("query: ", "passage: ")


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


async def test_equal_queries_of_one_owner_are_encoded_once():
    inner = FakeEncoder()
    everyone = Registry(inner, FakeEncoder, query_cache=8)
    red, blue = everyone.for_owner("red"), everyone.for_owner("blue")
    for encoders in (red, red, blue, everyone, red):
        await encoders.encode_query(inner.name, "moss")

    assert inner.queries == ["moss"] * 3
