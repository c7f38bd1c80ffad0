"""The services over both engines."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests.support import Engine, memory_engine


@pytest.fixture(params=["local mode", "embedded"])
async def engine(request, tmp_path_factory) -> AsyncIterator[Engine]:
    """Qdrant-client's local mode, and the embedded engine."""
    async with AsyncExitStack() as stack:
        if request.param == "local mode":
            yield await stack.enter_async_context(memory_engine())
        else:
            client = await EdgeClient.open(tmp_path_factory.mktemp("engine"))
            stack.push_async_callback(client.close)
            yield Engine(client)
