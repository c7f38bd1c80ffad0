"""Repeats tests of both engines on a Qdrant server: QDRANT_TEST_URL=http://localhost:6333.

The server must be empty at the start; each test removes what it made. Tests in several processes
take turns. Modules here import their tests from other modules, and give them `server` as engine.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.qdrant.client import open_client
from tests.ingest.conftest import encoder, services  # noqa: F401
from tests.qdrant_server import URL, lent
from tests.support import Engine

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop imported tests without an engine; without a server, all but one per module."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    kept = [item for item in ours if "server" in getattr(item, "fixturenames", ())]
    if URL is None:
        kept = list({item.path: item for item in kept}.values())
    left_out = set(ours).difference(kept)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
async def server() -> AsyncIterator[AsyncQdrantBase]:
    """The empty server, locked for this test."""
    if URL is None:
        pytest.skip("QDRANT_TEST_URL names no Qdrant server")
    with lent(URL):
        client = await open_client(url=URL, timeout=20)
        try:
            yield client
        finally:
            await client.close()


@pytest.fixture
def engine(server: AsyncQdrantBase) -> Engine:
    """The same, in the form that tests of both engines expect."""
    return Engine(server)
