"""Points get their vectors, whatever becomes of them meanwhile."""

import itertools

from mcp_server_qdrant.core.datatypes import Sparse
from mcp_server_qdrant.ingest.collections.fill import PASSES, fill
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from tests.support import IDF, Engine, foreign, memory_engine


async def test_a_text_that_is_another_one_at_each_look_is_not_waited_for():
    numbers = itertools.count()

    class Changing(Engine):
        async def retrieve(self, *arguments, **shown):
            records = await self.client.retrieve(*arguments, **shown)
            for record in records:
                record.payload = {"text": f"text {next(numbers)}"}
            return records

    async def encode(documents):
        return [Sparse((1,), (1.0,)) for _ in documents]

    async with memory_engine() as engine:
        await foreign(engine, "notes", {1: {"text": "one"}}, sparse={"bm25": IDF})
        bulk = Bulk(Changing(engine.client), ("text",))
        assert await fill(bulk, "notes", "bm25", encode, batch=8) == (0, 0)

    assert next(numbers) <= PASSES * PASSES
