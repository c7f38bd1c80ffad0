"""A request becomes a query."""

import asyncio

from tests.fakes import FakeEncoder
from tests.support import find, memory_services, remember, texts


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
