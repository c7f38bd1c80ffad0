"""A collection is described by an agent, on each engine and where that is allowed."""

import pytest

from tests.support import memory_server, refusal, said

ABOUT = {"collection_name": "notes", "about": {"description": "Letters since 2019"}}


async def test_a_description_is_written_down_on_either_engine(engine):
    async with memory_server(engine=engine) as client:
        await client.call_tool("qdrant-store", {"collection_name": "notes", "information": "roses"})
        told = await client.call_tool("qdrant-store", ABOUT)
        listed = await client.call_tool("qdrant-collections", {})

    assert said(told) == 'Updated collection notes. Description: "Letters since 2019".'
    assert "about: Letters since 2019" in said(listed)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"qdrant_collections": ("other",)}, "may not use a collection named"),
        ({"tenant_field": "tenant", "tenant_id": "a"}, "only the operator can describe them"),
    ],
)
async def test_none_that_is_hidden_or_of_all_tenants_is_described(settings, sentence):
    async with memory_server(**settings) as client:
        refused = await client.call_tool("qdrant-store", ABOUT)

    assert sentence in refusal(refused)


async def test_a_client_without_a_folder_gives_none():
    async with memory_server() as client:
        about = {"collection_name": "notes", "about": {"folder": "/"}}
        refused = await client.call_tool("qdrant-store", about)

    assert "A client over HTTP cannot set folders" in refusal(refused)
