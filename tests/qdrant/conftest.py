"""What tests of the engines share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import Engine, either_engine, memory_engine


@pytest.fixture(params=["edge", "memory"])
async def engine(request: pytest.FixtureRequest, engine_folder: Path) -> AsyncIterator[Engine]:
    """Each engine, empty: the embedded one, and qdrant-client's local mode."""
    async with either_engine(request.param, engine_folder) as engine:
        yield engine


@pytest.fixture
async def memory() -> AsyncIterator[Engine]:
    """qdrant-client's local mode, empty."""
    async with memory_engine() as engine:
        yield engine
