"""Clients of both engines, in which there is nothing yet."""

import pytest
from qdrant_client import AsyncQdrantClient

from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.wire import EdgeOptions


@pytest.fixture(params=["edge", "memory"])
async def client(request, tmp_path):
    if request.param == "memory":
        client = AsyncQdrantClient(":memory:")
    else:
        client = await EdgeClient.open(tmp_path, timeout=20, options=EdgeOptions(idle_seconds=1))
    yield client
    await client.close()
