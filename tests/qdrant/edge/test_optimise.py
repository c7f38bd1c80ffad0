"""A shard is optimised while it is read and written, and a crash in between harms nothing."""

import asyncio
import contextlib
import json
import os
import random
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import models

from mcp_server_qdrant.qdrant.edge import optimise
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.embedded import Embedded
from tests.hosts import until
from tests.qdrant.edge.here import crashed, made
from tests.qdrant.edge.test_store import Optimised
from tests.qdrant.edge.test_turns import count, upsert
from tests.support import nearest

SIZE = 64


def point(i, tag="first"):
    dice = random.Random(i)
    return models.PointStruct(
        id=i,
        vector={
            "d": [dice.random() - 0.5 for _ in range(SIZE)],
            "s": models.SparseVector(indices=[i % 50], values=[1.0]),
        },
        payload={"n": i, "tag": tag},
    )


async def make(client, name="c"):
    await client.create_collection(
        name,
        {"d": models.VectorParams(size=SIZE, distance="Cosine")},
        {"s": models.SparseVectorParams(modifier="idf")},
    )


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Spaces are optimised early."""
    monkeypatch.setattr(optimise, "OPTIMISE_AT", 600)
    monkeypatch.setattr(optimise, "QUIET_SECONDS", 0.1)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "engine"


@pytest.fixture
async def client(folder):
    client = await EdgeClient.open(folder, timeout=30)
    await make(client)
    await client.create_payload_indexes("c", {"tag": "keyword"})
    yield client
    await client.close()


@asynccontextmanager
async def after_a_crash(folder):
    """What another process finds where this one is killed now."""
    client = await EdgeClient.open(crashed(folder, folder.with_name("crashed")), timeout=30)
    yield client
    await client.close()


def optimised_points(folder):
    """How many points there were when it was optimised last; 0: it never was."""
    (about,) = (folder / "spaces").glob("*/space.json")
    return json.loads(about.read_text())["optimised_points"]


def tagged(value):
    return models.Filter(
        must=[models.FieldCondition(key="tag", match=models.MatchValue(value=value))]
    )


def under_way(folder):
    return len([*(folder / "spaces").glob("*/g-*")]) > 1


async def begun(folder):
    # On a busy machine nobody may look before it is over.
    await until(lambda: under_way(folder) or optimised_points(folder))


def child_of(folder):
    """The process that optimises the copy, None while there is none."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (path / "cmdline").read_text()
            if "edge.optimise" in line and str(folder) in line:
                return int(path.name)
    return None


async def paused_child(client, folder):
    """Stop the child as soon as there is one."""
    while (child := child_of(folder)) is None:
        if optimised_points(folder):
            pytest.skip("the optimisation was over before its process could be stopped")
        await client.get_collections()
    os.kill(child, signal.SIGSTOP)
    return child


async def finished(folder):
    await until(lambda: optimised_points(folder) and not under_way(folder))


async def given_up(folder):
    await until(lambda: not under_way(folder))


async def test_what_is_written_meanwhile_is_done_again_in_the_copy(client, folder, caplog):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(folder)
    child = await paused_child(client, folder)
    await client.upsert("c", [point(i, "new") for i in range(780, 900)])
    await client.delete("c", list(range(100, 150)))
    await client.set_payload("c", {"more": 1}, [5])
    await client.create_payload_indexes("c", {"n": "integer"})
    await make(client, "other")
    await client.upsert("other", [point(i) for i in range(5)])
    os.kill(child, signal.SIGCONT)
    await finished(folder)
    assert "given up" not in caplog.text

    async with after_a_crash(folder) as another:
        for one in (client, another):
            assert (await one.count("c")).count == 850
            assert (await one.count("c", tagged("new"))).count == 120
            assert (await one.count("other")).count == 5
            assert (await one.retrieve("c", [5]))[0].payload["more"] == 1
            assert set((await one.get_collection("c")).payload_schema) == {"tag", "n"}
            assert (await one.get_collection("c")).warnings is None


async def test_a_writer_that_never_rests_does_not_starve_it(tmp_path, monkeypatch):
    monkeypatch.setattr(optimise, "_LONGEST_WAIT", 0.5)
    monkeypatch.setattr(optimise, "start", Optimised)
    engine = await Embedded.open(tmp_path)
    await EdgeClient(engine, 60).create_described("a", made())
    written = 0
    async with asyncio.timeout(60):
        while written < 700 or not optimised_points(tmp_path):
            await upsert(engine, written // 10, batches=10)
            written += 10
    assert await count(engine) == written
    await engine.close()


async def test_reads_go_on_and_nothing_is_lost(client, folder):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(folder)
    child = await paused_child(client, folder)
    assert (await client.count("c", tagged("first"))).count == 800
    os.kill(child, signal.SIGCONT)
    while not optimised_points(folder):
        assert (await client.count("c")).count == 800

    async with after_a_crash(folder) as another:
        for one in (client, another):
            info = await one.get_collection("c")
            assert (info.points_count, info.warnings) == (800, None)
            assert set(info.payload_schema) == {"tag"}
            found = await nearest(one, "c", point(750).vector["d"], "d", limit=1)
            assert [p.id for p in found] == [750]
        assert not under_way(folder.with_name("crashed"))


async def test_answers_are_as_exact_as_before(client, folder):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(folder)
    await finished(folder)

    vectors = np.array([point(i).vector["d"] for i in range(800)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for i in range(0, 800, 40):
        quick = await nearest(client, "c", vectors[i].tolist(), "d", limit=5)
        scores = sorted(vectors @ vectors[i], reverse=True)
        assert [p.score for p in quick] == pytest.approx(scores[:5], abs=1e-5)


async def test_many_deletions_are_a_reason_too(client, folder):
    await client.upsert("c", [point(i) for i in range(700)])
    await begun(folder)
    await finished(folder)
    await client.delete("c", list(range(650)))
    await until(lambda: optimised_points(folder) == 50)
    assert (await client.count("c")).count == 50


async def test_a_process_killed_in_the_middle_loses_nothing(client, folder):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(folder)
    child = await paused_child(client, folder)
    await client.upsert("c", [point(i, "new") for i in range(800, 900)])
    async with after_a_crash(folder) as another:
        os.kill(child, signal.SIGKILL)
        assert not under_way(folder.with_name("crashed"))
        assert (await another.count("c")).count == 900
        assert (await another.count("c", tagged("new"))).count == 100
        assert (await another.get_collection("c")).warnings is None


async def test_an_optimisation_that_fails_leaves_everything_as_it_was(client, folder, caplog):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(folder)
    child = await paused_child(client, folder)
    os.kill(child, signal.SIGKILL)
    await given_up(folder)

    assert (await client.count("c", tagged("first"))).count == 800
    assert not optimised_points(folder)
    assert "given up" in caplog.text


async def test_a_collection_can_be_deleted_in_the_middle(client, folder):
    await make(client, "other")
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(folder)
    await client.delete_collection("c")
    await until(lambda: not under_way(folder))
    await until(lambda: not list((folder / "unwanted").iterdir()))
    assert [one.name for one in (await client.get_collections()).collections] == ["other"]
    await make(client, "c")
    assert (await client.count("c")).count == 0


async def test_small_collections_are_left_alone(client, folder):
    await client.upsert("c", [point(i) for i in range(100)])
    for _ in range(20):
        assert not under_way(folder)
        await asyncio.sleep(0.02)
    assert not optimised_points(folder)
