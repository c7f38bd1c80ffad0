"""The check of who may see what: whatever comes in its place, nothing is shown."""

import asyncio

import pytest

from mcp_server_qdrant.app.check import HitCheck
from mcp_server_qdrant.core.errors import CheckUnavailable
from tests.hostile import ENDLESS, HEAVY, IN_BUFFERS, LATE, hostile


@pytest.mark.parametrize("kind", [*ENDLESS, *HEAVY, *LATE])
async def test_an_answer_without_an_end_shows_nothing(kind, little, monkeypatch):
    monkeypatch.setattr("mcp_server_qdrant.app.check.SECONDS", 0.3)
    async with hostile(kind) as server, asyncio.timeout(60):
        check = HitCheck(server.url, None)
        with pytest.raises(CheckUnavailable):
            await check.allowed("blue", [("c", 1, None)])
        await check.close()

    assert server.sent < little + IN_BUFFERS
