"""The real server over stdio, as a client's configuration starts it."""

import sys

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.e2e.raw import RawServer, clean_environment, text_of

pytestmark = pytest.mark.model(False)


@pytest.mark.model(True)
async def test_an_agent_stores_in_two_collections_and_finds_across_them(env, tmp_path):
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_server_qdrant"],
        env=clean_environment(env),
        cwd=tmp_path,
    )
    async with Client(server) as client:
        tools = await client.list_tools()
        await client.call_tool(
            "qdrant-store",
            {
                "information": "The bread needs 72 % water and a night in the fridge.",
                "collection_name": "recipes",
                "title": "Sourdough",
            },
        )
        await client.call_tool(
            "qdrant-store",
            {
                "information": "The router forgets its port forwarding after a power cut.",
                "collection_name": "homelab",
                "metadata": {"device": "router"},
            },
        )
        found = await client.call_tool(
            "qdrant-find", {"query": "how wet should the dough be", "collections": ["*"]}
        )
        full = await client.call_tool(
            "qdrant-find", {"query": "port forwarding", "mode": "full", "limit": 1}
        )

    assert [tool.name for tool in tools.tools] == [
        "qdrant-find",
        "qdrant-store",
        "qdrant-get",
        "qdrant-collections",
        "qdrant-delete",
        "qdrant-project",
    ]
    assert found.structured_content["results"][0]["title"] == "Sourdough"
    assert "collections" not in found.structured_content
    assert "72 % water" in found.content[0].text
    assert full.structured_content["results"][0]["metadata"] == {"device": "router"}


def test_end_of_input_while_the_model_is_being_loaded_is_no_abort(env, tmp_path):
    unreachable = {k: v for k, v in env.items() if k != "QDRANT_LOCAL_PATH"}
    server = RawServer(unreachable | {"QDRANT_URL": "http://127.0.0.1:1"}, tmp_path)
    server.call("qdrant-collections")

    assert server.close() == (0, "")


def test_what_was_asked_before_the_end_of_input_is_still_answered(env, tmp_path):
    server = RawServer(env, tmp_path)
    server.send("tools/call", {"name": "qdrant-collections", "arguments": {}})
    server.process.stdin.close()

    answer = server.answer()

    assert text_of(answer["result"]) == "There is no collection yet."
    assert server.close()[0] == 0


def test_stdio_asks_nobody(env, tmp_path):
    server = RawServer(
        env | {"AUTH_MODE": "token", "AUTH_TOKEN": "a-token-of-some-length"}, tmp_path
    )
    tools = server.request("tools/list", {})["result"]["tools"]
    server.close()

    assert "qdrant-store" in {tool["name"] for tool in tools}
