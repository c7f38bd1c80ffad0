"""A sample of texts, from both engines."""

import uuid

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.qdrant.edge.plain import Beginnings
from mcp_server_qdrant.qdrant.read import sample
from mcp_server_qdrant.qdrant.read.sample import Sampler
from tests.support import COSINE, Engine, dense, either_engine, foreign, memory_engine

FIELDS = ("document", "text")


async def fill(client, payloads: list[dict]) -> Target:
    await client.create_collection("notes", vectors_config={"d": COSINE})
    points = [
        models.PointStruct(id=str(uuid.UUID(int=n)), vector={"d": dense(f"n{n}")}, payload=payload)
        for n, payload in enumerate(payloads)
    ]
    if points:
        await client.upsert("notes", points, wait=True)
    return Target("notes", len(points), None, None)


async def read(sampler: Sampler, target: Target) -> list[str]:
    return [text async for page in sampler.texts(target) for text in page]


async def test_all_texts_of_a_small_collection_are_read_in_pages(client, monkeypatch):
    monkeypatch.setattr(sample, "PAGE", 3)
    target = await fill(client, [{"document": f"text {n}"} for n in range(10)])
    pages = [page async for page in Sampler(client, FIELDS).texts(target)]

    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert sorted(text for page in pages for text in page) == [f"text {n}" for n in range(10)]


async def test_a_large_collection_is_read_in_part_and_no_text_twice(client, monkeypatch):
    monkeypatch.setattr(sample, "PAGE", 5)
    monkeypatch.setattr(sample, "MOST_POINTS", 20)
    target = await fill(client, [{"document": f"text {n}"} for n in range(60)])
    found = await read(Sampler(client, FIELDS), target)

    assert 15 <= len(found) < 25
    assert len(set(found)) == len(found)


async def test_text_and_title_are_found_in_every_shape_of_payload(client):
    target = await fill(
        client,
        [
            {"document": "ours", "title": "Title", "metadata": None},
            {"text": "theirs", "metadata": {"title": "Inside", "author": "nobody"}},
            {"document": 7, "text": "second field"},
            {"title": "a title alone"},
            {"other": "no text"},
            {"text": "x" * 5_000},
        ],
    )

    assert set(await read(Sampler(client, FIELDS), target)) == {
        "Title\nours",
        "Inside\ntheirs",
        "second field",
        "a title alone\n",
        "x" * 4_000,
    }


async def test_an_empty_collection_has_no_texts(client):
    assert await read(Sampler(client, FIELDS), await fill(client, [])) == []


async def test_only_texts_and_titles_are_asked_for():
    async with memory_engine() as engine:
        await foreign(
            engine, "notes", {1: {"text": "some"}}, vectors=COSINE, values=lambda _: dense("a")
        )
        asked = []

        class Spy(Engine):
            async def scroll(self, *arguments, **rest):
                asked.append(rest["with_payload"])
                return await engine.scroll(*arguments, **rest)

        await read(Sampler(Spy(engine), FIELDS), Target("notes", 1, None, None))

    assert [one.include for one in asked] == [["document", "text", "title", "metadata.title"]]


async def test_of_a_huge_text_only_the_beginning_leaves_the_engine(tmp_path):
    huge = {"text": "moss " * 400_000, "title": "t" * 9_000, "metadata": {"title": "u" * 9_000}}
    async with either_engine("edge", tmp_path) as engine:
        await foreign(engine, "notes", {1: huge}, vectors=COSINE, values=lambda _: dense("a"))
        shown = Beginnings(include=["text", "title", "metadata.title"], longest=4_000)
        (scrolled,), _ = await engine.scroll("notes", with_payload=shown)
        (got,) = await engine.retrieve("notes", [1], with_payload=shown)

    assert scrolled.payload == got.payload
    assert {k: len(v) for k, v in got.payload.items()} == {"text": 4e3, "title": 4e3, "metadata": 1}
    assert len(got.payload["metadata"]["title"]) == 4_000


async def test_what_fails_is_one_of_our_errors():
    async with memory_engine() as engine:
        engine.down = EngineFailure("gone")
        for points in (1, sample.MOST_POINTS + 1):
            with pytest.raises(EngineFailure):
                await read(Sampler(engine, FIELDS), Target("notes", points, None, None))
