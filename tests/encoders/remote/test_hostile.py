"""Whatever an embedding service or a reranker sends, its call ends in time, with a sentence."""

import asyncio

import pytest

from mcp_server_qdrant.core.errors import EncoderUnavailable, RerankerUnavailable
from mcp_server_qdrant.encoders.remote.openai import OpenAIEncoder
from mcp_server_qdrant.encoders.remote.rerank import HttpReranker
from tests.hostile import ENDLESS, HEAVY, IN_BUFFERS, LATE, hostile

SECONDS = 0.3


class Impatient(OpenAIEncoder):
    seconds = query_seconds = SECONDS
    backoff = 0.0


@pytest.mark.parametrize("kind", [*ENDLESS, *HEAVY, *LATE])
async def test_an_embedding_service_without_an_end_is_unavailable(kind, little):
    async with hostile(kind) as server, asyncio.timeout(60):
        for texts in (None, ["one", "two"]):
            encoder = Impatient("m", server.url)
            encoding = encoder.encode_documents(texts) if texts else encoder.encode_query("q")
            with pytest.raises(EncoderUnavailable, match="embedding service"):
                await encoding
            await encoder.close()

    assert server.sent < little + IN_BUFFERS


@pytest.mark.parametrize("kind", [*ENDLESS, *HEAVY, *LATE])
async def test_a_reranker_without_an_end_is_unavailable(kind, little):
    async with hostile(kind) as server, asyncio.timeout(60):
        reranker = HttpReranker(server.url)
        with pytest.raises(RerankerUnavailable, match="reranker"):
            await reranker.score("q", ["one", "two"], SECONDS)
        await reranker.close()

    assert server.sent < little + IN_BUFFERS
