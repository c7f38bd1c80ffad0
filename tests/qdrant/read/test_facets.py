"""Which tags a collection has, on both engines."""

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import EngineTimeout, RequestError
from mcp_server_qdrant.qdrant.read.facets import TagFacets
from tests.support import COSINE, dense, foreign, memory_engine

KEYWORD = models.PayloadSchemaType.KEYWORD
PAYLOADS = {
    1: {"tags": ["Apollo", "plan"]},
    2: {"tags": "plan"},
    3: {"metadata": {"tags": ["zeus"]}},
    4: {"tags": [], "metadata": None},
}


async def filled(engine, *indexes: str) -> None:
    await engine.create_collection("c", vectors_config={"v": COSINE})
    for key in indexes:
        await engine.create_payload_index("c", key, KEYWORD)
    points = [
        models.PointStruct(id=n, vector={"v": dense("x")}, payload=payload)
        for n, payload in PAYLOADS.items()
    ]
    await engine.upsert("c", points)


async def test_tags_of_both_places_come_with_their_key(engine):
    await filled(engine, "tags", "metadata.tags")

    found = await TagFacets(engine, lambda *_: True).tags("c", 10)

    assert sorted(found) == [("metadata.tags", "zeus"), ("tags", "Apollo"), ("tags", "plan")]


async def test_the_most_frequent_come_where_there_are_too_many(engine):
    await filled(engine, "tags", "metadata.tags")

    assert await TagFacets(engine, lambda *_: True).tags("c", 1) == [
        ("tags", "plan"),
        ("metadata.tags", "zeus"),
    ]


async def test_a_key_without_an_index_is_not_asked_for():
    async with memory_engine() as engine:
        await filled(engine)
        engine.calls.clear()

        assert await TagFacets(engine, lambda _, key: key == "tags").tags("c", 9) == [
            ("tags", "plan"),
            ("tags", "Apollo"),
        ]
        assert await TagFacets(engine, lambda *_: False).tags("c", 9) == []
        assert engine.calls == [("facet", "c")]


async def test_a_server_that_refuses_has_no_tags_and_one_that_is_late_says_so():
    async with memory_engine() as engine:
        await foreign(engine, "c", PAYLOADS)
        facets = TagFacets(engine, lambda *_: True)
        engine.broken_methods["facet"] = RequestError("Qdrant refused the request: no facets")
        assert await facets.tags("c", 9) == []

        engine.broken_methods["facet"] = EngineTimeout("late")
        with pytest.raises(EngineTimeout):
            await facets.tags("c", 9)


async def test_tags_that_are_no_texts_are_left_out():
    async with memory_engine() as engine:
        await foreign(engine, "c", {1: {"tags": [7, True, "seven"]}})

        assert await TagFacets(engine, lambda *_: True).tags("c", 9) == [("tags", "seven")]
