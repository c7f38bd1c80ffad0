"""A shard is optimised while it is read and written, and a crash in between harms nothing."""

import asyncio
import contextlib
import json
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import models

from mcp_server_qdrant.qdrant.edge import host, optimise
from mcp_server_qdrant.qdrant.edge import wire as edge_wire
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from tests.hosts import pid_of, until
from tests.qdrant.edge.test_turns import MADE, call, upsert
from tests.support import nearest

SIZE = 64
OPTIONS = EdgeOptions(idle_seconds=0.3, optimise_at=600, quiet_seconds=0.1)


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


@pytest.fixture
async def client(tmp_path):
    client = await EdgeClient.open(tmp_path, timeout=30, options=OPTIONS)
    await make(client)
    await client.create_payload_indexes("c", {"tag": "keyword"})
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


async def test_what_is_written_meanwhile_is_done_again_in_the_copy(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(tmp_path)
    child = await paused_child(client, tmp_path)
    await client.upsert("c", [point(i, "new") for i in range(780, 900)])
    await client.delete("c", list(range(100, 150)))
    await client.set_payload("c", {"more": 1}, [5])
    await client.create_payload_indexes("c", {"n": "integer"})
    await make(client, "other")
    await client.upsert("other", [point(i) for i in range(5)])
    os.kill(child, signal.SIGCONT)
    await finished(tmp_path)
    assert "given up" not in edge_wire.service(tmp_path).log.read_text()

    for _ in range(2):
        assert (await client.count("c")).count == 850
        assert (await client.count("c", tagged("new"))).count == 120
        assert (await client.count("other")).count == 5
        assert (await client.retrieve("c", [5]))[0].payload["more"] == 1
        assert set((await client.get_collection("c")).payload_schema) == {"tag", "n"}
        assert (await client.get_collection("c")).warnings is None
        os.kill(pid_of(tmp_path), signal.SIGKILL)


async def test_a_writer_that_never_rests_does_not_starve_it(client, tmp_path, monkeypatch):
    options = EdgeOptions(min_free=0, optimise_at=600, quiet_seconds=0.1)
    monkeypatch.setattr(optimise, "_LONGEST_WAIT", 0.5)
    engine = host.Engine(tmp_path / "own", options)
    await engine.do(None, call(0, "create", "a", MADE))
    written, path = 0, tmp_path / "own"
    async with asyncio.timeout(60):
        while written < 700 or not optimised_points(path):
            await engine.do(None, upsert(written // 10, blobs=10))
            written += 10
            await asyncio.sleep(0)
    assert await engine.do(None, call(1, "count", "a", {})) == {"count": written}
    await engine.end()


async def test_reads_go_on_and_nothing_is_lost(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(tmp_path)
    child = await paused_child(client, tmp_path)
    assert (await client.count("c", tagged("first"))).count == 800
    os.kill(child, signal.SIGCONT)
    while not optimised_points(tmp_path):
        assert (await client.count("c")).count == 800

    for _ in range(2):
        info = await client.get_collection("c")
        assert (info.points_count, info.warnings) == (800, None)
        assert set(info.payload_schema) == {"tag"}
        found = await nearest(client, "c", point(750).vector["d"], "d", limit=1)
        assert [p.id for p in found] == [750]
        # The second time after a crash.
        os.kill(pid_of(tmp_path), signal.SIGKILL)
    assert not under_way(tmp_path)


async def test_answers_are_as_exact_as_before(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(tmp_path)
    await finished(tmp_path)

    vectors = np.array([point(i).vector["d"] for i in range(800)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for i in range(0, 800, 40):
        quick = await nearest(client, "c", vectors[i].tolist(), "d", limit=5)
        scores = sorted(vectors @ vectors[i], reverse=True)
        assert [p.score for p in quick] == pytest.approx(scores[:5], abs=1e-5)


async def test_many_deletions_are_a_reason_too(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(700)])
    await begun(tmp_path)
    await finished(tmp_path)
    await client.delete("c", list(range(650)))
    await until(lambda: optimised_points(tmp_path) == 50)
    assert (await client.count("c")).count == 50


async def test_a_host_killed_in_the_middle_loses_nothing(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(tmp_path)
    child = await paused_child(client, tmp_path)
    await client.upsert("c", [point(i, "new") for i in range(800, 900)])
    with contextlib.suppress(ProcessLookupError):  # the host ends it too: its copy is of no use
        os.kill(child, signal.SIGKILL)
    os.kill(pid_of(tmp_path), signal.SIGKILL)

    assert (await client.count("c")).count == 900
    assert (await client.count("c", tagged("new"))).count == 100
    assert (await client.get_collection("c")).warnings is None


async def test_an_optimisation_that_fails_leaves_everything_as_it_was(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(tmp_path)
    child = await paused_child(client, tmp_path)
    os.kill(child, signal.SIGKILL)
    await given_up(tmp_path)

    assert (await client.count("c", tagged("first"))).count == 800
    assert not optimised_points(tmp_path)
    assert "given up" in edge_wire.service(tmp_path).log.read_text()


async def test_a_collection_can_be_deleted_in_the_middle(client, tmp_path):
    await make(client, "other")
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(tmp_path)
    await client.delete_collection("c")
    await until(lambda: not under_way(tmp_path))
    await until(lambda: not list((tmp_path / "unwanted").iterdir()))
    assert [one.name for one in (await client.get_collections()).collections] == ["other"]
    await make(client, "c")
    assert (await client.count("c")).count == 0


async def test_small_collections_are_left_alone(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(100)])
    for _ in range(20):
        assert not under_way(tmp_path)
        await asyncio.sleep(0.02)
    assert not optimised_points(tmp_path)
