"""Keys that a filter asks for and no text has."""

import pytest

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.errors import InvalidFilter
from mcp_server_qdrant.qdrant.read.keys import MOST_COLLECTIONS, SAMPLE, PayloadKeys
from tests.support import COSINE, foreign, memory_engine

TARGET = Target("c", points=0, dense=None, sparse=None)


def of(key: str) -> dict:
    return {"must": [{"key": key, "match": {"value": 1}}]}


async def test_a_key_outside_of_the_sample_is_known_and_one_that_is_nowhere_is_not():
    payloads = {number: {"text": "x", "often": 1, "doc": {"id": "y"}} for number in range(SAMPLE)}
    rare = {"rare": 1, "list": [{"in": 1}], "none": None}
    async with memory_engine() as engine:
        await foreign(engine, "c", payloads | {1_000: rare}, vectors=COSINE)
        keys = PayloadKeys(engine)
        nested = {"must": [{"nested": {"key": "list", "filter": of("in")}}]}
        for known in (of("often"), of("rare"), of("list[].in"), nested, of("doc.file"), {}):
            await keys.check(known, [TARGET])
        with pytest.raises(InvalidFilter) as caught:
            await keys.check(of("seldom"), [TARGET])
        await keys.check(of("seldom"), [TARGET] * (MOST_COLLECTIONS + 1))

    assert str(caught.value) == "No text there has the key 'seldom'; there are: often, text."
