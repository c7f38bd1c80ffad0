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

from mcp_server_qdrant.qdrant.edge import wire as edge_wire
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from tests.hosts import pid_of, until
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


@pytest.fixture
async def client(tmp_path):
    client = await EdgeClient.open(tmp_path, timeout=30, options=OPTIONS)
    await client.create_collection(
        "c",
        {"d": models.VectorParams(size=SIZE, distance="Cosine")},
        {"s": models.SparseVectorParams(modifier="idf")},
    )
    await client.create_payload_indexes("c", {"tag": "keyword"})
    yield client
    await client.close()


def sidecar(folder):
    try:
        return json.loads((folder / "shards" / "c-c" / "collection.json").read_text())
    except FileNotFoundError:  # the copy takes its place at this moment
        return {}


def tagged(value):
    return models.Filter(
        must=[models.FieldCondition(key="tag", match=models.MatchValue(value=value))]
    )


def under_way(folder):
    return any((folder / "work").glob("optimised-*"))


async def begun(folder):
    # On a busy machine nobody may look before it is over.
    await until(lambda: under_way(folder) or "optimised_points" in sidecar(folder))


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
        if "optimised_points" in sidecar(folder):
            pytest.skip("the optimisation was over before its process could be stopped")
        await client.get_collections()
    os.kill(child, signal.SIGSTOP)
    return child


async def finished(folder):
    await until(lambda: "optimised_points" in sidecar(folder))


async def given_up(folder):
    await until(lambda: not under_way(folder))


async def test_a_copy_of_what_was_written_to_meanwhile_is_thrown_away(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(tmp_path)
    await paused_child(client, tmp_path)
    await client.upsert("c", [point(i, "new") for i in range(800, 900)])
    await client.delete("c", list(range(100, 150)))
    await given_up(tmp_path)

    assert "optimised_points" not in sidecar(tmp_path)
    assert list((tmp_path / "work").iterdir()) == []
    assert (await client.count("c")).count == 850
    assert (await client.count("c", tagged("new"))).count == 100


async def test_reads_go_on_and_nothing_is_lost(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(tmp_path)
    child = await paused_child(client, tmp_path)
    assert (await client.count("c", tagged("first"))).count == 800
    os.kill(child, signal.SIGCONT)
    while "optimised_points" not in sidecar(tmp_path):
        assert (await client.count("c")).count == 800

    for _ in range(2):
        info = await client.get_collection("c")
        assert (info.points_count, info.warnings) == (800, None)
        assert set(info.payload_schema) == {"tag"}
        found = await nearest(client, "c", point(750).vector["d"], "d", limit=1)
        assert [p.id for p in found] == [750]
        # The second time after a crash.
        os.kill(pid_of(tmp_path), signal.SIGKILL)
    left = {p.name for p in (tmp_path / "shards").iterdir()}
    assert left == {"c-c"}


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
    await until(lambda: sidecar(tmp_path).get("optimised_points") == 50)
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
    assert "optimised_points" not in sidecar(tmp_path)
    assert "given up" in edge_wire.service(tmp_path).log.read_text()


async def test_a_collection_can_be_deleted_in_the_middle(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(800)])
    await begun(tmp_path)
    await client.delete_collection("c")
    await until(lambda: not list((tmp_path / "work").iterdir()))
    assert (await client.get_collections()).collections == []
    assert list((tmp_path / "shards").iterdir()) == []


async def test_small_collections_are_left_alone(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(100)])
    for _ in range(20):
        assert not under_way(tmp_path)
        await asyncio.sleep(0.02)
    assert "optimised_points" not in sidecar(tmp_path)
