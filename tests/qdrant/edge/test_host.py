"""The engine host: shared, restarted when it dies, gone after its last client."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import (
    DiskFull,
    EngineFailure,
    EngineTimeout,
    EngineUnavailable,
    QdrantMcpError,
    RequestError,
)
from mcp_server_qdrant.hosting.link import connect
from mcp_server_qdrant.hosting.wire import Rendezvous, socket_path
from mcp_server_qdrant.qdrant.edge import files as edge_files
from mcp_server_qdrant.qdrant.edge import wire as edge_wire
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from tests.hosts import alive, pid_of, rendezvous, state, until
from tests.support import nearest

QUICK = EdgeOptions(idle_seconds=0.3)
SIZE = 8
VECTOR = {"d": [1.0] * SIZE}


async def opened(folder, options=QUICK):
    return await EdgeClient.open(folder, timeout=20, options=options)


def point(i):
    return models.PointStruct(
        id=i,
        vector={
            "d": [float(i % 7), *[1.0] * (SIZE - 1)],
            "s": models.SparseVector(indices=[i % 50], values=[1.0]),
        },
        payload={"n": i},
    )


async def make(client, name="c"):
    await client.create_collection(
        name,
        {"d": models.VectorParams(size=SIZE, distance="Cosine")},
        {"s": models.SparseVectorParams(modifier="idf")},
    )


@pytest.mark.usefixtures("real_hosts")
async def test_clients_that_start_together_share_one_host(tmp_path):
    first, *others = await asyncio.gather(*(opened(tmp_path) for _ in range(4)))
    await make(first)
    await asyncio.gather(*(one.upsert("c", [point(i)]) for i, one in enumerate(others)))

    await first.close()
    assert [(await one.count("c")).count for one in others] == [3, 3, 3]
    await asyncio.gather(*(one.close() for one in others))


@pytest.mark.usefixtures("real_hosts")
async def test_the_host_ends_after_its_last_client_and_all_is_there_again(tmp_path):
    client = await opened(tmp_path)
    await make(client)
    await client.upsert("c", [point(i) for i in range(250)])
    pid = pid_of(tmp_path)
    await client.close()
    await until(lambda: not alive(pid))

    assert not rendezvous(tmp_path).exists()
    client = await opened(tmp_path)
    assert pid_of(tmp_path) != pid
    assert (await client.get_collection("c")).points_count == 250
    await client.close()


async def test_sigterm_ends_the_host_cleanly_and_the_client_goes_on(tmp_path):
    client = await opened(tmp_path)
    await make(client)
    await client.upsert("c", [point(1)])
    pid = pid_of(tmp_path)
    os.kill(pid, signal.SIGTERM)
    await until(lambda: not alive(pid))

    assert (await client.count("c")).count == 1
    assert pid_of(tmp_path) != pid
    await client.close()


async def test_nothing_acknowledged_is_lost_when_the_host_is_killed(tmp_path):
    """Five rounds of kill -9 at a random moment in mid-store; the stores go on by themselves."""
    client = await opened(tmp_path)
    await make(client)
    acknowledged: set[int] = set()
    dice = random.Random(5)
    fresh = iter(range(10**9))
    for _ in range(5):
        await client.count("c")  # all stores may have been answered before the kill
        pid = pid_of(tmp_path)

        async def store():
            while alive(pid):  # noqa: B023
                batch = [next(fresh) for _ in range(dice.choice([1, 10, 150]))]
                await client.upsert("c", [point(i) for i in batch])
                acknowledged.update(batch)

        stores = [asyncio.create_task(store()) for _ in range(3)]
        before = len(acknowledged)
        await until(lambda: len(acknowledged) >= before + dice.randrange(1, 400))  # noqa: B023
        os.kill(pid, signal.SIGKILL)
        await asyncio.gather(*stores)

    found = await client.retrieve("c", sorted(acknowledged), with_vectors=True)
    assert {p.id for p in found} == acknowledged
    assert all(p.payload["n"] == p.id and set(p.vector) == {"d", "s"} for p in found)
    assert (await client.get_collection("c")).points_count == len(acknowledged)
    await client.close()


async def test_reads_under_way_are_answered_though_the_host_is_killed(tmp_path):
    client = await opened(tmp_path)
    await make(client)
    await client.upsert("c", [point(i) for i in range(100)])
    reads = [
        asyncio.create_task(nearest(client, "c", [1.0] * SIZE, "d", limit=3)) for _ in range(50)
    ]
    await asyncio.sleep(0)
    os.kill(pid_of(tmp_path), signal.SIGKILL)

    assert all(len(found) == 3 for found in await asyncio.gather(*reads))
    await client.close()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"address": "x"}', '{"wire": 9, "pid": 1}', "stale"]
)
async def test_a_broken_or_stale_rendezvous_is_passed_over(tmp_path, text):
    rendezvous(tmp_path).write_text(text)
    if text == "stale":
        gone = str(tmp_path / "gone.sock")
        Rendezvous(gone, b"k" * 32, 2**22 - 1, edge_wire.WIRE).write(rendezvous(tmp_path))
    client = await opened(tmp_path)

    assert (await client.get_collections()).collections == []
    await client.close()


async def test_a_host_of_another_version_is_named(tmp_path):
    client = await opened(tmp_path)
    found = Rendezvous.read(rendezvous(tmp_path))
    Rendezvous(found.address, found.key, found.pid, wire=99).write(rendezvous(tmp_path))
    with pytest.raises(EngineUnavailable, match="version"):
        await opened(tmp_path)
    await client.close()


async def test_a_folder_that_cannot_be_made_is_an_error_without_a_path(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineUnavailable) as failed:
        await opened(tmp_path / "file" / "folder")
    assert str(tmp_path) not in str(failed.value)


async def opened_late(folder):
    """What a new client learns of a host that hangs, in a second."""
    try:
        return await asyncio.to_thread(connect, edge_wire.service(folder, QUICK), 1.0)
    except EngineUnavailable as error:
        return error


async def test_a_deadline_that_passes_is_an_error(tmp_path, monkeypatch):
    client = await opened(tmp_path)
    monkeypatch.setattr("mcp_server_qdrant.hosting.link._HELLO_SECONDS", 0.5)
    os.kill(pid_of(tmp_path), signal.SIGSTOP)
    await until(lambda: state(pid_of(tmp_path)) == "T")
    try:
        with pytest.raises(EngineTimeout, match=r"0\.2 seconds"):
            await client._link.call("count", "c", {}, timeout=0.2)
        late = await opened_late(tmp_path)
        assert isinstance(late, EngineUnavailable)
    finally:
        os.kill(pid_of(tmp_path), signal.SIGCONT)
    assert (await client.get_collections()).collections == []
    await client.close()


async def test_the_event_loop_goes_on_while_much_is_stored(tmp_path):
    client = await opened(tmp_path)
    await make(client)
    points = [point(i) for i in range(3000)]
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    await client.upsert("c", points)
    ticking.cancel()

    assert ticks > 3000 / 16
    assert (await client.count("c")).count == 3000
    await client.close()


async def test_queries_get_in_between_the_pieces_of_a_large_store(tmp_path):
    client, other = await opened(tmp_path), await opened(tmp_path)
    await make(client)
    await client.upsert("c", [point(1)])
    store = asyncio.create_task(client.upsert("c", [point(i) for i in range(8000)]))
    between = 0
    while not store.done():
        await nearest(other, "c", [1.0] * SIZE, "d", limit=1)
        between += 1

    await store
    assert between > 10
    await client.close()
    await other.close()


async def test_a_new_host_opens_its_store_before_it_is_asked(tmp_path):
    client = await opened(tmp_path)
    await make(client)
    pid = pid_of(tmp_path)
    await client.close()
    await until(lambda: not alive(pid))

    client = await opened(tmp_path)
    await until(lambda: "/spaces/" in Path(f"/proc/{pid_of(tmp_path)}/maps").read_text())
    await client.close()


async def ended(folder):
    """The host is killed, and nobody has asked for another one."""
    pid = pid_of(folder)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not alive(pid))


async def test_what_a_crash_left_half_done_vanishes_at_the_next_start(tmp_path):
    client = await opened(tmp_path)
    await make(client, "kept")
    await client.close()
    await ended(tmp_path)
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
    pid = pid_of(tmp_path)
    os.kill(pid, signal.SIGTERM)
    await until(lambda: not alive(pid))
    for config in (tmp_path / "spaces").glob("*/g-*/segments/*/vector_index-s"):
        (config.parent / "segment.json").write_text("{")

    with pytest.raises(
        EngineFailure, match=r"To keep what can .* mcp-server-qdrant rebuild"
    ) as told:
        await client.count("bad")
    assert str(tmp_path) not in str(told.value)
    assert (await client.count("good")).count == 0
    assert await client.rebuild() == {"bad": (50, 0), "good": (0, 0)}
    assert (await client.count("bad")).count == 50
    await client.close()


async def test_points_of_a_collection_that_is_gone_are_removed_by_and_by(tmp_path):
    client = await opened(tmp_path)
    for name in ("kept", "gone"):
        await make(client, name)
        await client.upsert(name, [point(n) for n in range(600)])
    await client.delete_collection("gone")
    await make(client, "gone")
    assert (await client.count("gone")).count == 0
    await until(lambda: not list((tmp_path / "unwanted").iterdir()))

    assert (await client.count("kept")).count == 600
    await client.close()


async def test_too_little_space_refuses_writes_and_not_reads(tmp_path):
    client = await opened(tmp_path)
    await make(client)
    await client.upsert("c", [point(1)])
    pid = pid_of(tmp_path)
    await client.close()
    await until(lambda: not alive(pid))

    client = await opened(tmp_path, EdgeOptions(idle_seconds=0.3, min_free=2**60))
    with pytest.raises(DiskFull, match="Nothing was written"):
        await client.upsert("c", [point(2)])
    assert (await client.count("c")).count == 1
    await client.delete("c", [1])
    await client.close()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 MB."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root on Linux")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk_refuses_writes_before_it_can_kill(small_disk):
    options = EdgeOptions(idle_seconds=0.3, min_free=120 << 20)
    client = await opened(small_disk, options)
    await make(client)
    pid = pid_of(small_disk)
    stored = 0
    ballast = small_disk / "ballast"

    async def store_until_refused():
        nonlocal stored
        while True:
            with ballast.open("ab") as file:
                file.write(b"x" * (10 << 20))
            await client.upsert("c", [point(i) for i in range(stored, stored + 200)])
            stored += 200

    with pytest.raises(DiskFull):
        await store_until_refused()

    assert pid_of(small_disk) == pid
    assert (await client.count("c")).count == stored > 0
    ballast.unlink()
    await client.upsert("c", [point(stored)])
    assert (await client.count("c")).count == stored + 1
    await client.close()
    await until(lambda: not alive(pid))


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
DELETIONS = {
    "ids": lambda c: c.delete("c", IDS),
    "filter": lambda c: c.delete("c", EVERY),
}


async def test_on_a_full_disk_every_write_is_refused_at_once_and_nothing_has_happened(small_disk):
    options = EdgeOptions(idle_seconds=0.3, min_free=64 << 20)
    client = await opened(small_disk, options)
    await make(client)
    await client.upsert("c", [point(i) for i in range(200)])
    pid = pid_of(small_disk)
    fill(small_disk, 0)

    for write in WRITES.values():
        with pytest.raises(DiskFull, match=r"^Nothing was written: 0 MB are free"):
            await write(client)
    for delete in DELETIONS.values():
        with pytest.raises(DiskFull, match=r"^Nothing was deleted: 0 MB are free .* 8 MB are need"):
            await delete(client)
    assert pid_of(small_disk) == pid
    assert (await client.count("c")).count == 200
    assert (await client.get_collections()).collections[0].name == "c"
    (small_disk / "ballast").unlink()
    for write in (*WRITES.values(), *DELETIONS.values()):
        await write(client)
    assert (await client.count("c")).count == 0
    await client.close()
    await until(lambda: not alive(pid))


async def test_on_a_nearly_full_disk_deletions_are_done_and_other_writes_refused(small_disk):
    options = EdgeOptions(idle_seconds=0.3, min_free=64 << 20)
    client = await opened(small_disk, options)
    await make(client)
    await client.upsert("c", [point(i) for i in range(200)])
    pid = pid_of(small_disk)
    fill(small_disk, 12 << 20)

    for write in WRITES.values():
        with pytest.raises(DiskFull):
            await write(client)
    await client.delete("c", IDS)
    assert (await client.count("c")).count == 197
    await client.delete("c", EVERY)
    assert (await client.count("c")).count == 0
    assert await client.delete_collection("c")
    assert pid_of(small_disk) == pid
    await client.close()
    await until(lambda: not alive(pid))


async def test_where_others_fill_the_disk_in_mid_write_the_doubt_is_told(small_disk):
    unchecked = EdgeOptions(idle_seconds=0.3, min_free=-(1 << 40))
    client = await opened(small_disk, unchecked)
    await make(client)
    await client.upsert("c", [point(i) for i in range(200)])
    fill(small_disk, 0)

    with pytest.raises(QdrantMcpError, match="may or may not have happened") as failed:
        await client.upsert("c", [point(i) for i in range(200, 20_000)])
    assert not isinstance(failed.value, EngineTimeout)
    (small_disk / "ballast").unlink()
    await client.upsert("c", [point(30_000)])
    assert (await client.count("c")).count > 200
    assert (await client.get_collection("c")).warnings is None
    pid = pid_of(small_disk)
    await client.close()
    await until(lambda: not alive(pid))


def test_importing_the_host_loads_no_heavy_package():
    code = (
        "import sys, mcp_server_qdrant.qdrant.edge.host;"
        "print([m for m in ('qdrant_client', 'numpy', 'pydantic') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_a_long_temporary_folder_still_has_a_short_socket(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 200)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    path = socket_path()
    path.parent.rmdir()

    assert len(str(path)) <= 104


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


async def test_an_operation_nobody_knows_is_refused(tmp_path):
    client = await opened(tmp_path)
    for operation in ("nonsense", "__init__", "flush"):
        with pytest.raises(RequestError):
            await client._ask(operation)
    with pytest.raises(RequestError, match="understand"):
        await client._ask("count", 1, 2, 3, 4, 5)
    with pytest.raises(RequestError, match="understand"):
        await client._change("upsert", 1, 2, 3, 4, 5)
    await client.close()


async def test_a_caller_that_gives_up_leaves_the_connection_to_the_others(tmp_path):
    client = await opened(tmp_path)
    await make(client)
    os.kill(pid_of(tmp_path), signal.SIGKILL)
    impatient = [asyncio.create_task(client.count("c")) for _ in range(3)]
    patient = asyncio.create_task(client.count("c"))
    await asyncio.sleep(0.01)
    for task in impatient:
        task.cancel()

    assert (await patient).count == 0
    assert (await asyncio.gather(*impatient, return_exceptions=True)).count(None) == 0
    await client.close()


async def test_a_client_process_that_is_killed_does_not_keep_the_host(tmp_path):
    code = f"""
import asyncio, pathlib, sys
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
async def main():
    folder = pathlib.Path({str(tmp_path)!r})
    client = await EdgeClient.open(folder, options=EdgeOptions(idle_seconds=0.2))
    print("open", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "open\n"
    pid = pid_of(tmp_path)
    client = await opened(tmp_path)
    assert pid_of(tmp_path) == pid, "processes share the host"
    process.kill()
    process.communicate()
    assert (await client.get_collections()).collections == []
    await client.close()

    await until(lambda: not alive(pid))
