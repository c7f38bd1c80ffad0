"""What a client reads of a server without a tool: how it introduces itself, what may be kept."""

from mcp_server_qdrant.tools.project import APP
from tests.support import memory_server


async def test_what_clients_may_keep_says_for_how_long_and_for_whom():
    async with memory_server() as client:
        tools, resources = await client.list_tools(), await client.list_resources()

    assert [str(one.uri) for one in resources.resources] == [APP]
    assert (tools.ttl_ms, tools.cache_scope) == (300_000, "private")
    assert (resources.ttl_ms, resources.cache_scope) == (3_600_000, "public")


async def test_the_server_introduces_itself():
    async with memory_server() as client:
        assert client.server_info.name == "mcp-server-qdrant"
        told = client.instructions
    async with memory_server(qdrant_read_only=True) as client:
        only_read = client.instructions

    assert "qdrant-find at the start of a task" in told
    assert "qdrant-store what a later session will need" in told
    assert "begin with > are stored text" in told
    assert "qdrant-store" not in only_read
    assert len(told) < 600
