"""What must not go wrong in the engine when disks and files do."""

import asyncio
import errno
import os
import shutil
import sys
import time

import pytest
import qdrant_edge as edge
from qdrant_client import models

from mcp_server_qdrant.core.errors import EngineFailure, EngineUnavailable, RequestError
from mcp_server_qdrant.qdrant.edge import hold
from mcp_server_qdrant.qdrant.edge import optimise as edge_optimise
from mcp_server_qdrant.qdrant.edge import space as edge_space
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.hold import LOCK
from tests.qdrant.edge.here import Here, upsert

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


def test_a_full_disk_does_not_refuse_to_open_a_collection(tmp_path, monkeypatch):
    here = Here(tmp_path, "a")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("open", "write_text"):
        monkeypatch.setattr(edge_space.Path, name, full)
    assert here.count("a") == 0


@posix
async def test_a_folder_of_another_user_is_refused(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("giving a folder away takes root")
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 12345, 12345)

    with pytest.raises(EngineUnavailable, match="belongs to another user"):
        await EdgeClient.open(folder, timeout=20)
    assert list(folder.iterdir()) == []


@posix
async def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path, monkeypatch):
    tmp_path.chmod(0o500)
    if os.geteuid() == 0:  # nothing is read-only to root, but for a file system that is
        monkeypatch.setattr(hold.os, "access", lambda path, mode: mode == os.R_OK)

    with pytest.raises(EngineUnavailable, match="cannot be written to: fix its permissions"):
        await EdgeClient.open(tmp_path, timeout=20)
    assert list(tmp_path.iterdir()) == []


@posix
@pytest.mark.parametrize("how", ["deleted", "moved"])
async def test_a_write_to_a_folder_that_went_away_is_not_acknowledged(tmp_path, how):
    folder = tmp_path / "data"
    client = await EdgeClient.open(folder, timeout=20)
    await client.create_collection("c", VECTORS)
    if how == "moved":
        folder.rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(folder)

    with pytest.raises(EngineFailure, match="was deleted or moved"):
        await client.upsert("c", [models.PointStruct(id=1, vector=[1.0, 2.0])])
    await client.close()
    client = await EdgeClient.open(folder, timeout=20)
    await client.create_collection("c", VECTORS)
    await client.upsert("c", [models.PointStruct(id=2, vector=[1.0, 2.0])])
    assert [p.id for p in await client.retrieve("c", [1, 2])] == [2]
    await client.close()


@posix
async def test_what_the_engine_makes_is_for_its_user_only(tmp_path):
    """Whatever is in a folder that others may not enter, they cannot read."""
    tmp_path.chmod(0o755)
    client = await EdgeClient.open(tmp_path, timeout=20)
    await client.create_collection("c", VECTORS)
    modes = {p.name: p.stat().st_mode & 0o077 for p in tmp_path.iterdir()}
    await client.close()

    assert {LOCK, "spaces", "collections"} <= modes.keys()
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
    optimiser = edge_optimise.Optimiser(here.store, asyncio.Lock())
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
        here.do(("create_payload_indexes", "a", {"n": "integer", "c": "colour"}))
    assert here.info("a").payload_schema == {}

    declared = {"n": "integer", "t": {"type": "text", "lowercase": True}}
    here.do(("create_payload_indexes", "a", declared))
    for _ in range(2):
        assert here.info("a").payload_schema.keys() == {"n", "t"}
        assert here.store.get("a").entry.indexes == declared
        assert here.info("b").payload_schema == {}, "it declared none"
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
