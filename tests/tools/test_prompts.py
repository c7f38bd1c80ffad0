"""The prompts, which clients offer to their users."""

import logging

import pytest
from mcp import MCPError

from tests.support import memory_server

TITLES = ["Remember this session", "What do you know about …", "Tidy up"]


async def texts(client, name: str, **arguments: str) -> str:
    (message,) = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    return message.content.text


async def test_there_is_a_prompt_to_remember_one_to_ask_and_one_to_tidy_up():
    async with memory_server() as client:
        listed = await client.list_prompts()
        remember = await texts(client, "remember")
        recall = await texts(client, "recall", topic="the heat\npump")
        tidy = await texts(client, "tidy"), await texts(client, "tidy", topic="berths")
        tools = {tool.name for tool in (await client.list_tools()).tools}

    assert [one.title for one in listed.prompts] == TITLES
    assert all(one.description.endswith(".") for one in listed.prompts)
    assert [(one.name, one.required) for one in listed.prompts[1].arguments] == [("topic", True)]
    assert "What do you know about this: the heat pump\n" in recall
    assert ["newest" in one for one in tidy] == [True, False]
    said = {word for one in (remember, recall, *tidy) for word in one.split() if "qdrant-" in word}
    assert said
    assert said <= tools


async def test_without_writing_there_is_only_the_one_to_ask():
    async with memory_server(qdrant_read_only=True) as client:
        listed = await client.list_prompts()

    assert [one.title for one in listed.prompts] == TITLES[1:2]


@pytest.mark.parametrize(
    ("name", "arguments"), [("nothing", {}), ("recall", {}), ("recall", {"topics": "x"})]
)
async def test_a_prompt_that_is_not_there_is_a_sentence_and_no_traceback(name, arguments, caplog):
    async with memory_server() as client:
        with caplog.at_level(logging.INFO), pytest.raises(MCPError) as caught:
            await client.get_prompt(name, arguments)

    assert caught.value.error.code == -32602
    assert caught.value.error.message.startswith("There is no such prompt")
    assert [record for record in caplog.records if record.exc_info] == []
