"""Which tags and keys a collection has, on both engines."""

from dataclasses import replace

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.errors import EngineTimeout, InvalidFilter, RequestError
from mcp_server_qdrant.qdrant.read.facets import MOST_COLLECTIONS, SAMPLE, Facets
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
        await engine.create_payload_indexes("c", {key: KEYWORD})
    points = [
        models.PointStruct(id=n, vector={"v": dense("x")}, payload=payload)
        for n, payload in PAYLOADS.items()
    ]
    await engine.upsert("c", points)


async def test_tags_of_both_places_come_with_their_key(engine):
    await filled(engine, "tags", "metadata.tags")

    found = await Facets(engine, lambda *_: True).tags("c", 10)

    assert sorted(found) == [("metadata.tags", "zeus"), ("tags", "Apollo"), ("tags", "plan")]


async def test_tags_of_deleted_points_are_gone(engine):
    await filled(engine, "tags", "metadata.tags")
    await engine.delete("c", models.Filter(must=[models.HasIdCondition(has_id=[1, 2])]))

    assert await Facets(engine, lambda *_: True).tags("c", 10) == [("metadata.tags", "zeus")]


async def test_the_most_frequent_come_where_there_are_too_many(engine):
    await filled(engine, "tags", "metadata.tags")

    assert await Facets(engine, lambda *_: True).tags("c", 1) == [
        ("tags", "plan"),
        ("metadata.tags", "zeus"),
    ]


async def test_a_key_without_an_index_is_not_asked_for():
    async with memory_engine() as engine:
        await filled(engine)
        engine.calls.clear()

        assert await Facets(engine, lambda _, key: key == "tags").tags("c", 9) == [
            ("tags", "plan"),
            ("tags", "Apollo"),
        ]
        assert await Facets(engine, lambda *_: False).tags("c", 9) == []
        assert engine.calls == [("facet", "c")]


async def test_a_server_that_refuses_has_no_tags_and_one_that_is_late_says_so():
    async with memory_engine() as engine:
        await foreign(engine, "c", PAYLOADS)
        facets = Facets(engine, lambda *_: True)
        engine.broken_methods["facet"] = RequestError("Qdrant refused the request: no facets")
        assert await facets.tags("c", 9) == []

        engine.broken_methods["facet"] = EngineTimeout("late")
        with pytest.raises(EngineTimeout):
            await facets.tags("c", 9)


async def test_tags_that_are_no_texts_are_left_out():
    async with memory_engine() as engine:
        await foreign(engine, "c", {1: {"tags": [7, True, "seven"]}})

        assert await Facets(engine, lambda *_: True).tags("c", 9) == [("tags", "seven")]


TARGET = Target("c", points=0, dense=None, sparse=None)


def of(key: str) -> dict:
    return {"must": [{"key": key, "match": {"value": 1}}]}


async def test_a_key_outside_of_the_sample_is_known_and_one_that_is_nowhere_is_not():
    payloads = {number: {"text": "x", "often": 1, "doc": {"id": "y"}} for number in range(SAMPLE)}
    rare = {"rare": 1, "list": [{"in": 1}], "none": None}
    async with memory_engine() as engine:
        await foreign(engine, "c", payloads | {1_000: rare}, vectors=COSINE)
        facets = Facets(engine, lambda *_: False, ["metadata.mine"])
        nested = {"must": [{"nested": {"key": "list", "filter": of("in")}}]}
        named = [*map(of, ("often", "rare", "list[].in", "doc.file", "metadata.mine")), nested, {}]
        for known in named:
            await facets.check_keys(known, [TARGET])
        with pytest.raises(InvalidFilter) as caught:
            await facets.check_keys(of("seldom"), [TARGET])
        many = [replace(TARGET, collection=f"c{n}") for n in range(MOST_COLLECTIONS + 1)]
        for one in many:
            await foreign(engine, one.collection, payloads, vectors=COSINE)
        with pytest.raises(InvalidFilter, match="'seldom'; there are: often, text"):
            await facets.check_keys(of("seldom"), many)

    assert str(caught.value) == "No text there has the key 'seldom'; there are: often, text."


@pytest.mark.parametrize(
    ("key", "match", "said"),
    [
        ("year", {"value": "2023"}, "'year' is a number there, such as 2023, but the filter has a"),
        ("year", {"any": ["2023", "2024"]}, "but the filter has a text: use the same type."),
        (
            "m.open",
            {"value": "true"},
            "is a boolean there, such as true, but the filter has a text",
        ),
        ("m.list[].name", {"value": 7}, "is a text there, such as"),
        ("year", {"value": 2024}, None),
        ("year", {"value": True}, "is a number there, such as 2023, but the filter has a boolean"),
        ("mixed", {"value": "1"}, None),
        ("empty", {"value": "1"}, None),
    ],
)
async def test_a_value_of_another_type_than_the_stored_ones_is_refused(engine, key, match, said):
    some = {"year": 2023, "m": {"open": True, "list": [{"name": "x"}]}, "mixed": 1, "empty": {}}
    await foreign(engine, "c", {1: some, 2: {"mixed": "1"}}, vectors=COSINE)
    facets, where = Facets(engine, lambda *_: False), {"must": [{"key": key, "match": match}]}
    if said is None:
        await facets.check_keys(where, [TARGET])
        return
    with pytest.raises(InvalidFilter) as caught:
        await facets.check_keys(where, [TARGET])

    assert said in str(caught.value)


async def test_who_stored_most_is_told_callers_before_clients(engine):
    stored_by = [{"client": "cursor"}, {"client": "claude", "caller": "ann"}, {"client": "claude"}]
    stored_by += [{"client": 7}, "claude", None]
    await engine.create_collection("c", vectors_config={"v": COSINE})
    points = [
        models.PointStruct(id=n, vector={"v": dense("x")}, payload={"stored_by": said})
        for n, said in enumerate(stored_by)
    ]
    await engine.upsert("c", points)

    facets = Facets(engine, lambda *_: False)

    assert await facets.writers("c", 9) == ["ann", "claude", "cursor"]
    assert await facets.writers("c", 1) == ["ann", "claude"]
