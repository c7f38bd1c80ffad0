"""What clients may read without a tool: resources, the instructions."""

import asyncio
import base64
import io
import json

import pytest
from mcp import MCPError
from mcp.types import SERVER_INFO_META_KEY
from PIL import Image

from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.tools.project import APP
from tests.support import foreign, make_settings, memory_engine, memory_server, served

ALL = "qdrant://collections"
ONE = "qdrant://collections/{name}"


async def store(client, *names: str) -> None:
    for name in names:
        done = await client.call_tool(
            "qdrant-store", {"information": "roses", "collection_name": name, "create": True}
        )
        assert not done.is_error


async def read(client, uri: str):
    (content,) = (await client.read_resource(uri)).contents
    assert content.mime_type == "application/json"
    return json.loads(content.text)


async def test_the_resources_are_listed():
    async with memory_server() as client:
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates

    assert [str(one.uri) for one in resources] == [APP, ALL]
    assert [one.uri_template for one in templates] == [ONE]
    assert all(one.description and one.title for one in (*resources, *templates))


async def test_all_collections_are_read_at_once():
    async with memory_server() as client:
        assert await read(client, ALL) == []
        await store(client, "notes", "recipes")
        found = await read(client, ALL)

    assert [one["name"] for one in found] == ["notes", "recipes"]
    assert found[0]["points"] == 1
    assert found[0]["legs"] == ["dense", "bm25"]


async def test_a_name_that_turns_the_writing_is_written_in_escapes():
    name = "a\u202eb\u2028c"
    async with memory_engine() as engine, memory_server(engine=engine) as client:
        await foreign(engine, name, {1: {"text": "roses"}})
        (content,) = (await client.read_resource(ALL)).contents

    assert content.text.isprintable()
    assert [one["name"] for one in json.loads(content.text)] == [name]


async def test_one_collection_is_read_by_name():
    async with memory_server() as client:
        await store(client, "notes")
        one = await read(client, "qdrant://collections/notes")

    assert (one["name"], one["model"]) == ("notes", "fake/Bag-of-Words")


async def test_names_with_spaces_are_read_too():
    async with memory_server() as client:
        await store(client, "my notes")

        assert (await read(client, "qdrant://collections/my%20notes"))["name"] == "my notes"


@pytest.mark.parametrize("name", ["absent", "private"])
async def test_an_absent_one_and_a_hidden_one_look_the_same(name):
    async with memory_engine() as engine:
        async with memory_server(engine=engine) as client:
            await store(client, "private", "team-a")
        async with memory_server(engine=engine, qdrant_collections=("team-*",)) as client:
            with pytest.raises(MCPError) as caught:
                await client.read_resource(f"qdrant://collections/{name}")
            everything = await read(client, ALL)

    assert [one["name"] for one in everything] == ["team-a"]
    assert "Traceback" not in str(caught.value)
    assert "team" not in str(caught.value)


async def test_what_clients_may_keep_says_for_how_long_and_for_whom():
    async with memory_server() as client:
        kept = {
            "tools": await client.list_tools(),
            "resources": await client.list_resources(),
            "templates": await client.list_resource_templates(),
            "read": await client.read_resource(ALL),
        }

    assert {name: (one.ttl_ms, one.cache_scope) for name, one in kept.items()} == {
        "tools": (300_000, "private"),
        "resources": (3_600_000, "public"),
        "templates": (3_600_000, "public"),
        "read": (0, "private"),
    }


async def test_who_subscribed_to_the_collections_hears_of_writes_and_not_of_reads():
    async with memory_server() as client, client.listen(resource_subscriptions=[ALL]) as heard:
        await client.call_tool("qdrant-find", {"query": "roses"})
        await store(client, "notes")
        event = await asyncio.wait_for(anext(aiter(heard)), 30)
        found = await read(client, event.uri)

    assert (event.uri, [one["name"] for one in found]) == (ALL, ["notes"])


async def test_tenants_hear_nothing_of_each_other():
    values = {"tenant_field": "tenant", "tenant_id": "blue"}
    async with memory_server(**values) as client:
        with pytest.raises(MCPError):
            async with client.listen(resource_subscriptions=[ALL]):
                pass


async def test_an_engine_that_cannot_be_opened_is_told_by_resources():
    async def opened():
        raise EngineUnavailable("Qdrant cannot be reached.")

    async with served(make_settings(), opened) as client:
        with pytest.raises(MCPError, match=r"Qdrant cannot be reached\."):
            await client.read_resource(ALL)


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


async def test_the_server_shows_its_icon_once_and_no_other_answer_carries_it():
    async with memory_server() as client:
        (icon,) = client.server_info.icons
        image = base64.b64decode(icon.src.removeprefix("data:image/png;base64,"))
        answers = [await client.list_tools(), await client.call_tool("qdrant-collections", {})]

    assert Image.open(io.BytesIO(image)).size == (64, 64)
    assert icon.sizes == ["64x64"]
    assert [list(answer.meta[SERVER_INFO_META_KEY]) for answer in answers] == [
        ["name", "title", "version"]
    ] * 2
