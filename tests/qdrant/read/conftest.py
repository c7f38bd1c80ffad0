"""Clients of both engines, which are empty."""

import pytest

from tests.support import either_engine


@pytest.fixture(params=["edge", "memory"])
async def client(request, engine_folder):
    async with either_engine(request.param, engine_folder) as engine:
        yield engine.client
