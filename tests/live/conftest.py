"""The tests of both engines once more, on a Qdrant server: QDRANT_TEST_URL=http://localhost:6333.

The server must be empty at the start; each test removes what it made. Tests in several processes
have it one after the other. Modules here take their tests from where they stand and give them
`server` for an engine.
"""

import os
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

import pytest
from filelock import FileLock
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.qdrant.client import open_client
from tests.support import Engine

URL = os.environ.get("QDRANT_TEST_URL")
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what came along and asks no engine; without a server, all but one of a module."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    kept = [item for item in ours if "server" in getattr(item, "fixturenames", ())]
    if URL is None:
        kept = list({item.path: item for item in kept}.values())
    left_out = set(ours).difference(kept)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
async def server() -> AsyncIterator[AsyncQdrantBase]:
    """The server, empty, and nobody else's meanwhile."""
    if URL is None:
        pytest.skip("QDRANT_TEST_URL names no Qdrant server")
    with alone(URL):
        client, keeper = [
            await open_client(url=URL, local_path=HERE, timeout=20)
            for _ in range(2)  # a test may close its own
        ]
        try:
            there = await names(keeper)
            assert there == [], f"the server that QDRANT_TEST_URL names has collections: {there}"
            yield client
            for name in await names(keeper):
                await keeper.delete_collection(name)
        finally:
            await client.close()
            await keeper.close()


@pytest.fixture
def engine(server: AsyncQdrantBase) -> Engine:
    """The same, as tests of both engines want it."""
    return Engine(server)


def alone(url: str) -> FileLock:
    """What tests of all processes hold while they use the server: they list and empty it."""
    return FileLock(Path(gettempdir(), f"qdrant-test-{sha256(url.encode()).hexdigest()[:16]}.lock"))


async def names(client: AsyncQdrantBase) -> list[str]:
    return [found.name for found in (await client.get_collections()).collections]
