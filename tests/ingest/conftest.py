"""The services over an empty engine, with an encoder that needs no model."""

from collections.abc import AsyncIterator

import pytest

from mcp_server_qdrant.app.services import Services
from tests.fakes import FakeEncoder
from tests.support import Engine, memory_services


@pytest.fixture
def encoder() -> FakeEncoder:
    """The encoder of `services`."""
    return FakeEncoder()


@pytest.fixture
async def services(engine: Engine, encoder: FakeEncoder) -> AsyncIterator[Services]:
    """The services over the fixture `engine`, without background work."""
    async with memory_services(encoder, engine=engine) as services:
        yield services
