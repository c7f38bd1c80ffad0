"""The embedded engine in this process: one folder, many callers, nothing acknowledged lost."""

import asyncio
import contextlib
import errno
import os
import random
import signal
import sys
import threading

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.context import within
from mcp_server_qdrant.core.errors import (
    DiskFull,
    EngineFailure,
    EngineTimeout,
    EngineUnavailable,
    RequestError,
)
from mcp_server_qdrant.qdrant.edge import files as edge_files
from mcp_server_qdrant.qdrant.edge import plain
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.hold import lock_folder
from mcp_server_qdrant.qdrant.engine import Ask, Leg
from tests import forked
from tests.hosts import until
from tests.qdrant.edge.storing import ROOT, SIZE, make, point, storing

VECTOR = {"d": [1.0] * SIZE}


async def opened(folder):
    return await EdgeClient.open(folder, timeout=20)


@pytest.fixture
async def client(tmp_path):
    """A client of a store with the empty collection `c`."""
    client = await opened(tmp_path)
    await make(client)
    yield client
    await client.close()


async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path, rounds):
    """Rounds of kill -9 at a random moment in mid-store."""
    acknowledged: set[int] = set()
    dice = random.Random(5)
    for round_ in range(max(rounds, 5)):
        most = len(acknowledged) + dice.randrange(1, 400)
        with storing(tmp_path, round_ * 1_000_000) as child:
            while len(acknowledged) < most:
                acknowledged.update(map(int, child.stdout.readline().split()))
        with child.stdout:
            for line in child.stdout:
                if line.endswith("\n"):
                    acknowledged.update(map(int, line.split()))
        client = await opened(tmp_path)
        found = await client.retrieve("c", sorted(acknowledged), with_vectors=True)
        assert {p.id for p in found} == acknowledged
        assert all(p.payload["n"] == p.id and set(p.vector) == {"d", "s"} for p in found)
        assert (await client.get_collection("c")).warnings is None
        await client.close()


def test_a_folder_that_another_process_has_open_is_told_with_what_to_do(tmp_path):
    with storing(tmp_path, 0) as child:
        child.stdout.readline()
        with pytest.raises(EngineUnavailable, match="in use by another process: end it, or use"):
            lock_folder(tmp_path)
    with child.stdout:
        lock_folder(tmp_path).release()


async def test_a_folder_is_held_until_it_is_closed(client, tmp_path):
    await client.upsert("c", [point(i) for i in range(250)])
    with pytest.raises(EngineUnavailable, match="in use"):
        await opened(tmp_path)
    await client.close()
    await client.close()
    again = await opened(tmp_path)
    assert (await again.get_collection("c")).points_count == 250
    await again.close()


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "could not be started: the disk is full."),
        (errno.EROFS, "Set QDRANT_LOCAL_PATH to a folder that you may write to."),
        (errno.EMFILE, "Allow this process more of them, with ulimit -n."),
    ],
)
async def test_what_the_disk_refuses_at_the_start_is_a_sentence(
    tmp_path, monkeypatch, number, sentence
):
    def refuse(_):
        raise OSError(number, os.strerror(number), str(tmp_path))

    with monkeypatch.context() as patch:
        patch.setattr(edge_files.Folder, "prepare", refuse)
        with pytest.raises(EngineUnavailable) as told:
            await opened(tmp_path)
    assert str(told.value).endswith(sentence)
    assert str(tmp_path) not in str(told.value)
    await (await opened(tmp_path)).close()


async def test_it_is_asked_in_the_event_loops_of_other_threads_too(client):

    async def elsewhere(first):
        await client.upsert("c", [point(i) for i in range(first, first + 40)])
        with pytest.raises(RequestError):
            await client.count("nonsense")
        return threading.get_ident(), (await client.count("c")).count

    runs = [asyncio.to_thread(asyncio.run, elsewhere(first)) for first in (0, 40, 80)]
    found = await asyncio.gather(*runs)

    assert threading.get_ident() not in {thread for thread, _ in found}
    assert max(count for _, count in found) == (await client.count("c")).count == 120


async def stuck(*_):
    await asyncio.Event().wait()


async def test_a_deadline_that_passes_is_an_error_and_the_engine_goes_on(client, monkeypatch):
    late = EdgeClient(client._engine, 0.02)
    with monkeypatch.context() as patch:
        patch.setattr(client._engine, "pause", stuck)
        ask = Ask(("c",), (Leg("d", [1.0] * SIZE),), 60, 5)
        with pytest.raises(EngineTimeout, match=r"in time\. Try again in a moment\.$"):
            await late.candidates(ask)
        with within(0.02), pytest.raises(EngineTimeout):
            await client.candidates(ask)
        with pytest.raises(EngineTimeout):
            await asyncio.to_thread(asyncio.run, late.candidates(ask))

    assert (await client.count("c")).count == 0


async def test_a_write_that_is_not_answered_may_have_happened(client, monkeypatch):
    going, engine, pauses = asyncio.Event(), client._engine, []

    async def pause():
        pauses.append("one before the work, then between its pieces")
        if len(pauses) > 1:
            await going.wait()

    monkeypatch.setattr(engine, "let_reads_go_first", pause)
    with pytest.raises(EngineTimeout, match=r"in time\. It may or may not have happened"):
        await EdgeClient(engine, 0.02).upsert("c", [point(1)])
    assert engine.busy
    going.set()

    await client.upsert("c", [point(2)])  # it comes after the other one
    assert [one.id for one in await client.retrieve("c", [1, 2])] == [1, 2]


async def test_calls_under_way_are_answered_when_it_is_closed_and_new_ones_refused(client):
    calls = [asyncio.create_task(client.count("c")) for _ in range(3)]
    await asyncio.sleep(0)
    await client.close()

    assert [found.count for found in await asyncio.gather(*calls)] == [0, 0, 0]
    with pytest.raises(EngineUnavailable, match="was closed"):
        await client.count("c")


async def test_what_a_caller_passed_or_got_is_a_copy(client):
    vectors = {"d": [1.0] * SIZE, "s": models.SparseVector(indices=[1], values=[1.0])}
    payload = {"deep": {"er": [1]}}
    _, given, kept = plain.plain_point(models.PointStruct(id=1, vector=vectors, payload=payload))
    vectors["d"].append(7.0)
    vectors["s"].values.append(7.0)
    payload["deep"]["er"].append(7)
    assert (given["d"], given["s"]["values"], kept) == ([1.0] * SIZE, [1.0], {"deep": {"er": [1]}})
    assert plain.plain_vector(rows := [[1.0]])[0] is not rows[0]

    made = {"vectors": {"d": {"size": 2, "distance": "Dot"}}, "sparse_vectors": {}, "indexes": {}}
    made["metadata"] = {"a": [1]}
    await client.create_described("d", made)
    made["metadata"]["a"].append(2)
    (await client.get_collection("d")).config.metadata["a"].append(3)
    assert (await client.get_collection("d")).config.metadata == {"a": [1]}


async def test_a_folder_that_cannot_be_made_is_an_error_without_a_path(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineUnavailable) as failed:
        await opened(tmp_path / "file" / "folder")
    assert str(tmp_path) not in str(failed.value)


async def test_it_opens_its_store_before_it_is_asked(tmp_path):
    client = await opened(tmp_path)
    await make(client)
    await client.close()

    client = await opened(tmp_path)
    await until(lambda: [one.is_open for one in client._engine.store.spaces.values()] == [True])
    await client.close()


async def test_what_a_crash_left_half_done_vanishes_at_the_next_start(tmp_path):
    client = await opened(tmp_path)
    await make(client, "kept")
    await client.close()
    (space,) = (tmp_path / "spaces").iterdir()
    (shard,) = space.glob("g-*")
    (space / "g-half").mkdir()
    (tmp_path / "spaces" / "s-half" / "g-1").mkdir(parents=True)
    (shard / "temp_segments").mkdir()
    (tmp_path / "trash" / "old").mkdir()

    client = await opened(tmp_path)
    assert [c.name for c in (await client.get_collections()).collections] == ["kept"]
    assert [path.name for path in space.glob("g-*")] == [shard.name]
    assert [path.name for path in (tmp_path / "spaces").iterdir()] == [space.name]
    assert not (shard / "temp_segments").exists()
    await until(lambda: not list((tmp_path / "trash").iterdir()))
    await make(client, "half")
    await client.close()


async def test_a_damaged_space_is_an_error_that_says_what_to_do_and_the_others_answer(tmp_path):
    client = await opened(tmp_path)
    await client.create_collection("good", {"d": models.VectorParams(size=2, distance="Dot")})
    await make(client, "bad")
    await client.upsert("bad", [point(n) for n in range(50)])
    await client.close()
    for config in (tmp_path / "spaces").glob("*/g-*/segments/*/vector_index-s"):
        (config.parent / "segment.json").write_text("{")
    client = await opened(tmp_path)

    with pytest.raises(
        EngineFailure, match=r"To keep what can .* mcp-server-qdrant rebuild"
    ) as told:
        await client.count("bad")
    assert str(tmp_path) not in str(told.value)
    assert (await client.count("good")).count == 0
    assert await client.rebuild() == {"bad": (50, 0), "good": (0, 0)}
    assert (await client.count("bad")).count == 50
    await client.close()


async def test_too_little_space_refuses_writes_and_not_reads(tmp_path, monkeypatch):
    client = await opened(tmp_path)
    await make(client)
    await client.upsert("c", [point(1)])
    await client.close()

    monkeypatch.setattr(edge_files, "MIN_FREE", 2**60)
    client = await opened(tmp_path)
    with pytest.raises(DiskFull, match="Nothing was written"):
        await client.upsert("c", [point(2)])
    assert (await client.count("c")).count == 1
    await client.delete("c", [1])
    await client.close()


def fill(disk, left):
    """Leave so many bytes on a small disk."""
    with (disk / "ballast").open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while file.write(b"x" * 65536) == 65536:
                pass
        os.ftruncate(file.fileno(), max(0, file.tell() - left))


IDS = [1, 2, 3]
EVERY = models.Filter()
WRITES = {
    "upsert": lambda c: c.upsert("c", [point(1)]),
    "vectors": lambda c: c.update_vectors("c", [models.PointVectors(id=1, vector=VECTOR)]),
    "payload": lambda c: c.set_payload("c", {"a": 1}, IDS),
    "every payload": lambda c: c.set_payload("c", {"a": 1}, EVERY),
    "less payload": lambda c: c.delete_payload("c", ["n"], IDS),
    "index": lambda c: c.create_payload_indexes("c", {"n": "integer"}),
    "add vector": lambda c: c.create_vector_name(
        "c", "t", models.SparseVectorNameConfig(sparse=models.SparseVectorConfig())
    ),
    "drop vector": lambda c: c.delete_vector_name("c", "s"),
    "create": lambda c: make(c, "other"),
    "describe": lambda c: c.update_collection("c", metadata={"a": 1}),
}
DELETIONS = {"ids": lambda c: c.delete("c", IDS), "filter": lambda c: c.delete("c", EVERY)}


async def test_on_a_full_disk_every_write_is_refused_at_once_and_nothing_has_happened(
    small_disk, monkeypatch
):
    monkeypatch.setattr(edge_files, "MIN_FREE", 64 << 20)
    client = await opened(small_disk)
    await make(client)
    await client.upsert("c", [point(i) for i in range(200)])
    fill(small_disk, 0)

    for write in WRITES.values():
        with pytest.raises(DiskFull, match=r"^Nothing was written: 0 MB are free"):
            await write(client)
    for delete in DELETIONS.values():
        with pytest.raises(DiskFull, match=r"^Nothing was deleted: 0 MB are free .* 8 MB are need"):
            await delete(client)
    assert (await client.count("c")).count == 200
    assert (await client.get_collections()).collections[0].name == "c"
    (small_disk / "ballast").unlink()
    for write in (*WRITES.values(), *DELETIONS.values()):
        await write(client)
    assert (await client.count("c")).count == 0
    await client.close()


async def test_on_a_nearly_full_disk_deletions_are_done_and_other_writes_refused(
    small_disk, monkeypatch
):
    monkeypatch.setattr(edge_files, "MIN_FREE", 64 << 20)
    client = await opened(small_disk)
    await make(client)
    await client.upsert("c", [point(i) for i in range(200)])
    fill(small_disk, 12 << 20)

    for write in WRITES.values():
        with pytest.raises(DiskFull):
            await write(client)
    await client.delete("c", IDS)
    assert (await client.count("c")).count == 197
    await client.delete("c", EVERY)
    assert (await client.count("c")).count == 0
    assert await client.delete_collection("c")
    await client.close()


FILLED = """
import asyncio, pathlib, sys
from mcp_server_qdrant.core.errors import EngineTimeout, QdrantMcpError
from tests.qdrant.edge.test_embedded import *
async def main(disk):
    edge_files.MIN_FREE = -(1 << 40)
    client = await opened(disk)
    await make(client)
    await client.upsert("c", [point(i) for i in range(200)])
    fill(disk, 0)
    try:
        await client.upsert("c", [point(i) for i in range(200, 20_000)])
    except EngineTimeout:
        sys.exit("late")
    except QdrantMcpError as error:
        print(error)
asyncio.run(main(pathlib.Path(sys.argv[1])))
"""


async def test_where_others_fill_the_disk_in_mid_write_nothing_acknowledged_is_lost(small_disk):
    """The engine says that it is not sure, or the system ends the process."""
    command = [sys.executable, "-c", FILLED, str(small_disk)]
    child = await asyncio.to_thread(forked.run, command, cwd=ROOT, timeout=240)
    assert child.returncode in (0, -signal.SIGBUS, -signal.SIGABRT), child.stderr
    assert child.returncode or "may or may not have happened" in child.stdout
    (small_disk / "ballast").unlink()
    client = await opened(small_disk)
    await client.upsert("c", [point(30_000)])
    assert (await client.count("c")).count > 200
    assert (await client.get_collection("c")).warnings is None
    await client.close()


def test_a_sparse_copy_is_equal_and_still_sparse(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    with (source / "file").open("wb") as file:
        file.write(b"head")
        file.seek(8 << 20)
        file.write(b"middle")
        file.truncate(16 << 20)
    (source / "empty").touch()
    edge_files.copy_sparse(source, tmp_path / "b")

    assert (tmp_path / "b" / "file").read_bytes() == (source / "file").read_bytes()
    assert (tmp_path / "b" / "empty").stat().st_size == 0
    assert edge_files.allocated(tmp_path / "b") < 1 << 20


async def test_a_call_that_makes_no_sense_is_refused(client):
    for call in (client.count("c", 1), client.upsert("c", 1), client.count("c", 1, 2)):
        with pytest.raises(RequestError, match="'c' does not understand this request"):
            await call
