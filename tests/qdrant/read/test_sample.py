"""The same random points with their vectors, from both engines."""

import random
import uuid

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models

from mcp_server_qdrant.core.datatypes import DenseLeg, Target
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.read import sample
from mcp_server_qdrant.qdrant.read.sample import Sampler
from tests.support import COSINE, IDF, dense

FIELDS = ("document", "text")
SIZE = 4
DOT = models.VectorParams(size=SIZE, distance=models.Distance.DOT)


def vector(point) -> list[float]:
    """Tells by itself which point it is of."""
    number = point if isinstance(point, int) else uuid.UUID(point).int
    return [float(number % 101), 1.0, 2.0, 3.0]


async def fill(client, ids, *, name: str = "d", payload=lambda _: {}) -> Target:
    vectors = {"d": DOT} if name else DOT
    await client.create_collection(
        "notes", vectors_config=vectors, sparse_vectors_config={"bm25": IDF}
    )
    points = [
        models.PointStruct(
            id=one, vector={"d": vector(one)} if name else vector(one), payload=payload(one)
        )
        for one in ids
    ]
    if points:
        await client.upsert("notes", points, wait=True)
    return target(len(points), name)


def target(points: int, name: str = "d") -> Target:
    return Target("notes", points, DenseLeg(name, SIZE, "dot", "model"), None)


def uuids(count: int) -> list[str]:
    chance = random.Random(5)
    return [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(count)]


async def test_parts_of_a_text_that_is_being_written_are_drawn_too(client):
    """When the last mark of writing goes, no count tells who keeps a map that it is old."""
    parts = await fill(client, range(4), payload=lambda n: {"doc": {"chunk": n, "writing": 7}})

    assert (await Sampler(client, FIELDS).sample(parts, 50)).ids == (0, 1, 2, 3)


async def test_a_small_collection_is_drawn_whole_in_the_order_of_its_ids(client, monkeypatch):
    monkeypatch.setattr(sample, "PAGE", 3)
    drawn = await Sampler(client, FIELDS).sample(await fill(client, range(10)), 50)

    assert drawn.ids == tuple(range(10))
    assert drawn.vectors.dtype == np.float32
    assert drawn.vectors.tolist() == [vector(one) for one in range(10)]


async def test_the_draw_of_a_larger_one_is_the_same_every_time(client):
    small = await fill(client, uuids(60))
    first = await Sampler(client, FIELDS).sample(small, 20)
    again = await Sampler(client, FIELDS).sample(small, 20)

    assert first.ids == again.ids
    assert len(set(first.ids)) == 20
    assert set(first.ids) < set(uuids(60))
    assert first.ids != tuple(sorted(uuids(60))[:20])
    assert first.vectors.tolist() == pytest.approx(
        np.array([vector(one) for one in first.ids], np.float32)
    )


async def test_both_engines_draw_the_same(tmp_path):
    drawn = []
    for client in (AsyncQdrantClient(":memory:"), await EdgeClient.open(tmp_path, timeout=20)):
        drawn.append(await Sampler(client, FIELDS).sample(await fill(client, range(90)), 30))
        await client.close()

    assert drawn[0].ids == drawn[1].ids


async def test_a_point_more_changes_the_draw_by_one_at_most(client):
    before = await Sampler(client, FIELDS).sample(await fill(client, range(100)), 30)
    await client.upsert("notes", [models.PointStruct(id=1_000, vector={"d": vector(1_000)})])
    after = await Sampler(client, FIELDS).sample(target(101), 30)

    assert len(set(before.ids) ^ set(after.ids)) in (0, 2)


async def test_of_a_huge_collection_the_first_ids_are_drawn_from(client, monkeypatch):
    monkeypatch.setattr(sample, "READABLE", 100)
    monkeypatch.setattr(sample, "IDS", 50)
    drawn = await Sampler(client, FIELDS).sample(await fill(client, range(150)), 30)

    assert len(set(drawn.ids)) == 30
    assert max(drawn.ids) < 100


async def test_an_unnamed_vector_is_drawn_as_any_other(client):
    drawn = await Sampler(client, FIELDS).sample(await fill(client, range(5), name=""), 10)

    assert drawn.vectors.tolist() == [vector(one) for one in range(5)]


async def test_points_without_the_vector_are_counted_and_left_out(client):
    few = await fill(client, range(4))
    sparse = models.SparseVector(indices=[1], values=[1.0])
    await client.upsert("notes", [models.PointStruct(id=7, vector={"bm25": sparse}, payload={})])
    drawn = await Sampler(client, FIELDS).sample(target(5), 10)

    assert drawn.ids == (0, 1, 2, 3)
    assert drawn.without == 1
    assert await Sampler(client, FIELDS).vectors(few, [3, 7, 99]) == {3: vector(3)}


async def test_an_empty_collection_gives_nothing(client):
    drawn = await Sampler(client, FIELDS).sample(await fill(client, []), 10)

    assert drawn.ids == ()
    assert drawn.vectors.shape == (0, SIZE)


async def test_title_and_snippet_are_one_line_each(client):
    payloads = {
        1: {"document": "long\ntext " * 100, "title": "A\ttitle"},
        2: {"text": "no title\nhere"},
        3: {"metadata": {"name": "inside"}},
    }
    drawn = await Sampler(client, FIELDS).sample(
        await fill(client, payloads, payload=payloads.get), 10
    )

    assert drawn.titles[:2] == ("A title", "no title here")
    assert drawn.titles[2] == "inside"
    assert drawn.snippets[0] == ("long text " * 100)[:160]
    assert drawn.snippets[1] == "no title here"


async def stored(client, payloads: list[dict]) -> Target:
    await client.create_collection("notes", vectors_config={"d": COSINE})
    points = [
        models.PointStruct(id=str(uuid.UUID(int=n)), vector={"d": dense(f"n{n}")}, payload=payload)
        for n, payload in enumerate(payloads)
    ]
    if points:
        await client.upsert("notes", points, wait=True)
    return Target("notes", len(points), None, None)


async def texts(drawer: Sampler, target: Target) -> list[str]:
    return [text async for page in drawer.texts(target) for text in page]


async def test_all_texts_of_a_small_collection_are_read_in_pages(client, monkeypatch):
    monkeypatch.setattr(sample, "TEXTS", 3)
    target = await stored(client, [{"document": f"text {n}"} for n in range(10)])
    pages = [page async for page in Sampler(client, FIELDS).texts(target)]

    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert sorted(text for page in pages for text in page) == [f"text {n}" for n in range(10)]


async def test_a_large_collection_is_read_in_part_and_no_text_twice(client, monkeypatch):
    monkeypatch.setattr(sample, "TEXTS", 5)
    monkeypatch.setattr(sample, "MOST_TEXTS", 20)
    target = await stored(client, [{"document": f"text {n}"} for n in range(60)])
    found = await texts(Sampler(client, FIELDS), target)

    assert 15 <= len(found) < 25
    assert len(set(found)) == len(found)


async def test_text_and_title_are_found_in_every_shape_of_payload(client):
    target = await stored(
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

    assert set(await texts(Sampler(client, FIELDS), target)) == {
        "Title\nours",
        "Inside\ntheirs",
        "second field",
        "a title alone\n",
        "x" * 4_000,
    }
