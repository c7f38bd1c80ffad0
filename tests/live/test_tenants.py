"""Tenants kept apart."""

# ruff: noqa: F403, F405
import pytest

from tests.app.test_tenancy import *
from tests.fakes import FakeEncoder
from tests.qdrant_server import URL
from tests.support import Engine


@pytest.fixture
async def house(server, tmp_path):
    made = House(
        Engine(server), FakeEncoder(), qdrant_cache_path=tmp_path / "cache", qdrant_url=URL
    )
    yield made
    await made.tenants.close()
