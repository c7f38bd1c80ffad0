"""Whatever an embedding service or a reranker sends, its call ends in time, with a sentence."""

import asyncio

import pytest

from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.encoders.remote.openai import OpenAIEncoder
from mcp_server_qdrant.encoders.remote.rerank import HttpReranker
from tests.hostile import ENDLESS, HEAVY, IN_BUFFERS, LATE, hostile

SECONDS = 0.3


class Impatient(OpenAIEncoder):
    seconds = query_seconds = SECONDS
    backoff = 0.0


@pytest.mark.parametrize("kind", [*ENDLESS, *HEAVY, *LATE])
async def test_a_service_without_an_end_is_unavailable(kind, little):
    async with hostile(kind) as server, asyncio.timeout(60):
        encoder, reranker = Impatient("m", server.url), HttpReranker(server.url)
        for call in (
            lambda: encoder.encode_query("q"),
            lambda: encoder.encode_documents(["one", "two"]),
            lambda: reranker.score("q", ["one", "two"], SECONDS),
        ):
            with pytest.raises(BackendError, match=r"embedding service|reranker"):
                await call()
            assert server.sent < little + IN_BUFFERS
        await encoder.close()
        await reranker.close()
