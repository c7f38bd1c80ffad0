"""The services over both engines."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.support import Engine, empty_edge, memory_engine


@pytest.fixture(params=["local mode", "embedded"])
async def engine(request, engine_folder) -> AsyncIterator[Engine]:
    """Qdrant-client's local mode, and the embedded engine."""
    async with AsyncExitStack() as stack:
        if request.param == "local mode":
            yield await stack.enter_async_context(memory_engine())
        else:
            client = await empty_edge(engine_folder)
            stack.push_async_callback(client.close)
            yield Engine(client)
