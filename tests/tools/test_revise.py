"""qdrant-store without a text: changes what is stored with one, and moves it."""

import pytest

from tests.support import memory_server, refusal, said

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

LONG = " ".join(f"Sentence {n} speaks of harbour {n} and of boat {n}." for n in range(200))


async def stored(client, text="the boat is red", id="x", collection="notes", **more):  # noqa: A002
    arguments = {"information": text, "id": id, "collection_name": collection, "create": True}
    result = await client.call_tool("qdrant-store", arguments | more)
    assert not result.is_error, said(result)
    return result


async def document(client, id="x", collection="notes"):  # noqa: A002
    arguments = {"ids": [id], "collection_name": collection}
    result = await client.call_tool("qdrant-get", arguments)
    return None if result.is_error else result.structured_content["documents"][0]


async def test_a_text_moves_to_the_collection_that_is_named():
    async with memory_server() as client:
        await stored(client, LONG, tags=["sea"], metadata={"created_at": "2020-05-04"})
        arguments = {"id": "x", "collection_name": "archive", "create": True}
        done = await client.call_tool("qdrant-store", arguments)
        after = await document(client, collection="archive")

        assert said(done).startswith("Moved to collection archive (new collection)")
        assert (after["text"], after["tags"]) == (LONG, ["sea"])
        assert after["created_at"] == "2020-05-04T00:00:00Z"
        assert await document(client) is None


CASES = [
    ({"id": "nowhere"}, "There is no text nowhere: give information to store one"),
    ({"id": "nowhere", "collection_name": "archive"}, "There is no text nowhere"),
    ({"id": "x", "collection_name": "archive"}, "archive has a text with the id x already"),
    ({"id": "x", "moved_from": "gone"}, "There is no collection 'gone'."),
    ({"id": "x", "moved_from": "archive", "collection_name": "archive"}, "is in archive already"),
    ({"id": "x"}, "is in notes already"),
    ({"id": "x", "seen": "0" * 16, "tags": ["b"]}, "somebody else has changed or deleted"),
    ({"id": "x", "metadata": {"created_at": "soon"}}, "metadata.created_at is not a date"),
    ({"id": "x", "tags": {"a": 1}}, "tags must be a list."),
    ({"tags": ["a"]}, "information is empty"),
]


@pytest.mark.parametrize(("arguments", "sentence"), CASES)
async def test_what_cannot_be_done_is_one_sentence_and_changes_nothing(arguments, sentence):
    async with memory_server() as client:
        await stored(client, tags=["sea"])
        await stored(client, "a crane", collection="archive")
        if "collection_name" not in arguments and "moved_from" not in arguments:
            arguments = arguments | {"collection_name": "notes"}
        if arguments.get("id") == "x" and arguments.get("collection_name") == "archive":
            arguments = {"moved_from": "notes"} | arguments
        result = await client.call_tool("qdrant-store", arguments)

        assert sentence in refusal(result)
        assert (await document(client))["text"] == "the boat is red"
        assert (await document(client))["tags"] == ["sea"]
        assert (await document(client, collection="archive"))["text"] == "a crane"


async def test_an_own_id_that_is_in_two_collections_asks_which():
    async with memory_server() as client:
        for name in ("notes", "archive"):
            await stored(client, collection=name)
        result = await client.call_tool("qdrant-store", {"id": "x", "tags": ["a"]})

        assert "the id 'x' is in archive and in notes" in refusal(result)


async def test_what_only_the_page_needs_is_not_listed():
    async with memory_server() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

        for name in ("qdrant-store", "qdrant-delete"):
            assert not {"seen", "moved_from"} & tools[name].input_schema["properties"].keys()
