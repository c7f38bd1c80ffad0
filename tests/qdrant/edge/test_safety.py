"""What must not go wrong in the host when disks, files, sockets and neighbours do."""

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import sys
import time

import pytest
import qdrant_edge as edge
from qdrant_client import models

from mcp_server_qdrant.core import disk, errors
from mcp_server_qdrant.core.errors import (
    EngineFailure,
    EngineTimeout,
    EngineUnavailable,
    RequestError,
)
from mcp_server_qdrant.hosting import link, wire
from mcp_server_qdrant.hosting.wire import Rendezvous
from mcp_server_qdrant.qdrant.edge import optimise as edge_optimise
from mcp_server_qdrant.qdrant.edge import space as edge_space
from mcp_server_qdrant.qdrant.edge import wire as edge_wire
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from tests.hosts import pid_of, rendezvous
from tests.qdrant.edge.here import SPARSE, Here, made, upsert

QUICK = EdgeOptions(idle_seconds=0.3)
VECTORS = models.VectorParams(size=2, distance="Dot")
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")


@pytest.fixture
def poison(tmp_path, monkeypatch):
    """A working directory whose modules leave a trace when they are imported."""
    project, trace = tmp_path / "project", tmp_path / "trace"
    project.mkdir()
    for name in ("secrets", "tempfile", "filelock", "qdrant_edge"):
        (project / f"{name}.py").write_text(f"open({str(trace)!r}, 'a').write({name!r})\n1 / 0\n")
    monkeypatch.chdir(project)
    return trace


def test_the_optimising_child_imports_nothing_from_the_working_directory(tmp_path, poison):
    place = tmp_path / "copy"
    place.mkdir()
    edge_optimise.start(place).wait(20)

    assert not poison.exists()


def test_an_error_arrives_as_it_was():
    sent = (
        errors.UnknownCollection("a", ["b"]),
        errors.Outdated(),
        errors.Unforeseen("KeyError"),
        errors.UnusableFile("is damaged", kept=True),
    )
    for error, arrived in zip(sent, wire.unpack(wire.pack(sent)), strict=True):
        assert (type(arrived), str(arrived)) == (type(error), str(error))
        assert vars(arrived) == vars(error)


@pytest.mark.parametrize("data", [b"nonsense", b"\x80\x05.", b"cno_module\nx\n."])
async def test_a_frame_that_is_no_message_ends_the_line(data):
    ours, theirs = socket.socketpair()
    line = link.HostLine(*await asyncio.open_connection(sock=ours))
    call = wire.Call(1, "count", ("c",), time.monotonic() + 5, "")
    answer = asyncio.ensure_future(line.answer(call))
    theirs.sendall(len(data).to_bytes(4, "big") + data)

    with pytest.raises(link._Lost):
        await answer
    theirs.settimeout(5)
    heard = await asyncio.to_thread(lambda: list(iter(lambda: theirs.recv(1 << 16), b"")))
    assert wire.Call(*wire.unpack(b"".join(heard)[4:])).number == 1
    theirs.close()  # its end was heard: the host learns of it too


async def stopped(folder):
    """The host's process id, once it is stopped."""
    pid = pid_of(folder)
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(0.05)
    return pid


async def test_calls_under_way_end_when_the_client_is_closed(tmp_path):
    client = await EdgeClient.open(tmp_path, timeout=60, options=QUICK)
    pid = await stopped(tmp_path)
    calls = [asyncio.create_task(client.get_collections()) for _ in range(3)]
    await asyncio.sleep(0.05)
    await client.close()
    os.kill(pid, signal.SIGCONT)

    async with asyncio.timeout(5):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [(type(one), "closed" in str(one)) for one in ended] == [(EngineUnavailable, True)] * 3


async def test_a_deletion_whose_host_dies_is_done_by_the_next_one(tmp_path):
    client = await EdgeClient.open(tmp_path, timeout=20, options=QUICK)
    await client.create_collection("c", VECTORS)
    pid = await stopped(tmp_path)
    drop = asyncio.create_task(client.delete_collection("c"))
    await asyncio.sleep(0.05)
    os.kill(pid, signal.SIGKILL)

    assert await drop
    assert not await client.collection_exists("c")
    await client.close()


@posix
async def test_a_write_that_is_not_answered_may_have_happened_and_a_read_is_just_late(tmp_path):
    client = await EdgeClient.open(tmp_path, timeout=20, options=QUICK)
    await client.create_collection("c", VECTORS)
    pid = await stopped(tmp_path)

    with pytest.raises(
        EngineTimeout, match=r"within 0.1 seconds\. It may or may not have happened"
    ):
        await client._change("delete", "c", {"must": [{"has_id": [1]}]}, timeout=0.1)
    with pytest.raises(EngineTimeout, match=r"within 0.1 seconds\.$"):
        await client._link.call("count", "c", {}, timeout=0.1)
    os.kill(pid, signal.SIGCONT)
    await client.close()


def test_a_failed_sync_fails_the_write_and_is_told_once(tmp_path, monkeypatch):
    here = Here(tmp_path, "a")
    here.do(("create", "b", made(sparse=SPARSE)))

    def full(_path):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(edge_space, "sync_tree", full)
        broken.setattr(edge_space, "LOG_IS_ENOUGH", True)
        with pytest.raises(EngineFailure, match=r"could not be made durable.* may or may not"):
            here.do(upsert(1))
    here.do(upsert(1, name="b"))
    here.store.settle()
    here.store.close()


def test_a_full_disk_does_not_refuse_to_open_a_collection(tmp_path, monkeypatch):
    here = Here(tmp_path, "a")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("open", "write_text"):
        monkeypatch.setattr(edge_space.Path, name, full)
    assert here.read("count", "a", {}) == {"count": 0}


@posix
def test_a_rendezvous_others_could_have_written_is_passed_over(tmp_path):
    Rendezvous("address", b"k" * 32, 1, wire=9).write(rendezvous(tmp_path))
    path = rendezvous(tmp_path)
    assert Rendezvous.read(rendezvous(tmp_path)) is not None
    path.chmod(0o644)
    assert Rendezvous.read(rendezvous(tmp_path)) is None

    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert Rendezvous.read(rendezvous(tmp_path)) is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert Rendezvous.read(rendezvous(tmp_path)) is None


def test_the_rendezvous_of_a_later_version_is_read_as_far_as_it_is_known(tmp_path):
    fields = {"address": "a", "key": "00ff", "pid": 7, "wire": 99, "news": [1]}
    disk.write_atomically(rendezvous(tmp_path), json.dumps(fields))

    assert Rendezvous.read(rendezvous(tmp_path)) == Rendezvous("a", b"\x00\xff", 7, wire=99)


@posix
async def test_a_folder_of_another_user_is_refused(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("giving a folder away takes root")
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 12345, 12345)

    with pytest.raises(EngineUnavailable, match="belongs to another user"):
        await EdgeClient.open(folder, timeout=20, options=QUICK)
    assert list(folder.iterdir()) == []


@posix
@pytest.mark.parametrize("how", ["deleted", "moved", "emptied"])
async def test_a_folder_that_goes_away_under_the_host_is_told_and_begun_anew(tmp_path, how):
    folder = tmp_path / "data"
    client = await EdgeClient.open(folder, timeout=20, options=QUICK)
    await client.create_collection("c", VECTORS)
    pid = pid_of(folder)
    if how == "moved":
        folder.rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(folder)
    if how == "emptied":
        folder.mkdir()

    # Before the host has noticed a write is refused; afterwards there is no such collection.
    with pytest.raises(
        (EngineFailure, errors.UnknownCollection), match=r"was deleted|no collection"
    ):
        await client.upsert("c", [models.PointStruct(id=1, vector=[1.0, 2.0])])
    async with asyncio.timeout(10):
        while (found := Rendezvous.read(rendezvous(folder))) is None or found.pid == pid:
            with contextlib.suppress(EngineFailure, errors.UnknownCollection):
                await client.count("c")
    await client.create_collection("c", VECTORS)
    await client.upsert("c", [models.PointStruct(id=2, vector=[1.0, 2.0])])
    assert [p.id for p in await client.retrieve("c", [1, 2])] == [2]
    await client.close()


@posix
async def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path, monkeypatch):
    tmp_path.chmod(0o500)
    if os.geteuid() == 0:  # nothing is read-only to root, but for a file system that is
        monkeypatch.setattr(link.os, "access", lambda path, mode: mode == os.R_OK)

    with pytest.raises(EngineUnavailable, match="cannot be written to: fix its permissions"):
        await EdgeClient.open(tmp_path, timeout=20, options=QUICK)
    assert list(tmp_path.iterdir()) == []


@posix
async def test_what_the_host_makes_is_for_its_user_only(tmp_path):
    edge_wire.service(tmp_path).log.touch(mode=0o644)
    client = await EdgeClient.open(tmp_path, timeout=20, options=QUICK)
    await client.create_collection("c", VECTORS)
    modes = {p.name: p.stat().st_mode & 0o077 for p in tmp_path.rglob("*")}
    await client.close()

    assert edge_wire.service(tmp_path).log.name in modes
    assert set(modes.values()) == {0}


@pytest.mark.parametrize("missing", [0, 1])
def test_a_copy_that_lacks_points_does_not_replace_the_shard(tmp_path, monkeypatch, missing):
    here = Here(tmp_path, "a")
    here.do(upsert(1, 2))
    start = edge_optimise.start

    def losing(place):
        child = start(place)
        child.wait()
        if missing:
            shard = edge.EdgeShard.load(str(place))
            (one,), _ = shard.scroll(edge.ScrollRequest(limit=1))
            shard.update(edge.UpdateOperation.delete_points([one.id]))
            shard.close()
        return child

    monkeypatch.setattr(edge_optimise, "start", losing)
    optimiser = edge_optimise.Optimiser(here.store, EdgeOptions(), asyncio.Lock())
    before = here.shard()

    assert asyncio.run(optimiser.optimise(here.space())) == (not missing)
    assert not optimiser.busy
    assert (here.shard() == before) == bool(missing)
    assert here.space().optimised == (0 if missing else 2)
    assert len(here.points()) == 2
    assert [path.name for path in before.parent.glob("g-*")] == [here.shard().name]
    here.store.close()


def test_indexes_are_made_together_and_none_where_one_is_not_known(tmp_path):
    here = Here(tmp_path, "a", "b")
    with pytest.raises(RequestError, match="no payload index of type 'colour'"):
        here.do(("index", "a", {"n": "integer", "c": "colour"}))
    assert here.read("info", "a")["payload_schema"] == {}

    declared = {"n": "integer", "t": {"type": "text", "lowercase": True}}
    here.do(("index", "a", declared))
    for _ in range(2):
        assert here.read("info", "a")["payload_schema"].keys() == {"n", "t"}
        assert here.store.get("a").entry.indexes == declared
        assert here.read("info", "b")["payload_schema"] == {}, "it declared none"
        here.again()
    here.store.close()


def test_two_deaths_lock_a_store_for_minutes_and_not_for_good(tmp_path):
    here = Here(tmp_path, "a")
    space = here.space()
    marker = space.path / "opening"
    for age, opens in ((5, False), (590, False), (610, True), (-610, True)):
        space.close()
        marker.write_bytes(b"..")
        os.utime(marker, (time.time() - age,) * 2)
        if opens:
            assert space.engine
        else:
            with pytest.raises(EngineFailure, match=r"stopped 2 times.* mcp-server-qdrant rebuild"):
                _ = space.engine
    here.store.close()
