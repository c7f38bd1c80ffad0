"""Collections brought up to date in place."""

# ruff: noqa: F403
import pytest

from mcp_server_qdrant.core.errors import EngineTooOld
from mcp_server_qdrant.qdrant.server.remote import at_least
from mcp_server_qdrant.qdrant.write.bulk import RANKING_SINCE
from tests.ingest.collections.test_upgrade import *
from tests.ingest.collections.test_upgrade import official, stored, upgrades
from tests.support import find, memory_services, texts


async def test_words_are_ranked_by_an_index_where_the_server_can(server):
    await official(server)
    before = await stored(server)
    if not at_least((await server.info()).version, RANKING_SINCE):
        with pytest.raises(EngineTooOld, match=r"from 1\.20 on it can"):
            await upgrades(server).index("notes")
        assert (await server.get_collection("notes")).payload_schema == {}
        return
    await upgrades(server).index("notes")
    async with memory_services(engine=server) as services:
        page = await find(services, "falcon bridge", "notes", algorithm="keyword")

    assert "falcon" in texts(page)[0]
    assert await stored(server) == before
