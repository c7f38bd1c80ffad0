"""One tenant's view of a server."""

# ruff: noqa: F403, F405
import pytest

from tests.qdrant.test_tenant import *


@pytest.fixture
async def engine(server):
    return await filled(server)
