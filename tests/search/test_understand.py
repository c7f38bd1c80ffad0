"""A request becomes a query."""

import asyncio
import threading

from mcp_server_qdrant.encoders.remote.openai import OpenAIEncoder
from tests.embedding_stub import served
from tests.fakes import FakeEncoder
from tests.support import find, memory_services, remember, states, texts


async def test_a_query_is_encoded_while_the_names_of_collections_are_asked_for():
    encoder = FakeEncoder()
    async with memory_services(encoder) as services:
        await remember(services, "garden", "roses")
        await find(services, "sun", "*")
        resolve = services.pipeline.understanding.resolve

        async def late(names):
            while "roses" not in encoder.queries:
                await asyncio.sleep(0)
            return await resolve(names)

        services.pipeline.understanding.resolve = late
        page = await asyncio.wait_for(find(services, "roses", "*"), 20)

    assert texts(page) == ["roses"]
    assert encoder.queries == ["sun", "roses"]


async def test_a_service_embeds_a_query_while_names_are_asked_for_and_words_are_looked_up():
    """Names come once it was asked, and it answers once the words are known."""
    asked, known = threading.Event(), threading.Event()

    def answer(body):
        asked.set()
        assert known.wait(20)
        return stub.reply(body)

    with served() as stub:
        async with memory_services(OpenAIEncoder("acme/Bag", stub.url)) as services:
            await remember(services, "garden", "roses")
            await find(services, "sun", "*")
            understanding = services.pipeline.understanding
            resolve, weigh = understanding.resolve, understanding.terms.of

            async def late(names):
                assert await asyncio.to_thread(asked.wait, 20)
                return await resolve(names)

            async def told(*arguments):
                terms = await weigh(*arguments)
                known.set()
                return terms

            understanding.resolve, understanding.terms.of = late, told
            stub.replies = [answer]
            page = await find(services, "roses", "*")

    assert states(page) == {"garden": "ok"}
    assert texts(page) == ["roses"]
    assert stub.inputs[-2:] == [["sun"], ["roses"]]
