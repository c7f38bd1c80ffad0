"""Snapshots of a real server: saved, and brought back beside what is there."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.qdrant.upkeep import backup, manifest
from mcp_server_qdrant.qdrant.upkeep.backup import ServerArchive
from mcp_server_qdrant.qdrant.upkeep.snapshots import Snapshots
from tests.live.conftest import URL, names

NOW = datetime(2026, 11, 22, tzinfo=UTC)
VECTOR = models.VectorParams(size=2, distance=models.Distance.COSINE)


def quiet(name, done, total):
    """Tell nobody."""


@pytest.fixture
async def snapshots():
    opened = Snapshots(URL, None)
    yield opened
    await opened.close()


@pytest.fixture
def archive(snapshots):
    return ServerArchive(snapshots)


async def fill(server, name, numbers):
    if not await server.collection_exists(name):
        metadata = {"model": "m"}
        await server.create_collection(name, vectors_config={"v": VECTOR}, metadata=metadata)
    points = [models.PointStruct(id=n, vector={"v": [1, n]}, payload={"n": n}) for n in numbers]
    await server.upsert(name, points, wait=True)


async def lead(server, alias, name):
    made = models.CreateAlias(collection_name=name, alias_name=alias)
    await server.update_collection_aliases([models.CreateAliasOperation(create_alias=made)])


async def restored(archive, folder, *, replace=True):
    found = manifest.read(folder)
    there = await archive._snapshots.names()
    backup.check(archive, folder, found.engine, found.collections, there, replace=replace)
    return await backup.restore(archive, folder, found.collections, quiet, replace=replace)


async def ids(server, name):
    found, _ = await server.scroll(name, limit=10_000, with_payload=True)
    assert [one.payload for one in found] == [{"n": one.id} for one in found]
    return [one.id for one in found]


async def deleted(server):
    await server.delete_collection("notes")


async def changed(server):
    await server.delete("notes", points_selector=[1], wait=True)


async def upgraded(server):
    config = models.SparseVectorNameConfig(sparse=models.SparseVectorConfig())
    await server.create_vector_name("notes", "bm25", config)
    await server.update_collection("notes", metadata={"model": "other", "more": 1})


async def copied(server):
    await server.delete_collection("notes")
    await fill(server, "notes~1", [7])
    await lead(server, "notes", "notes~1")


@pytest.mark.parametrize("since", [deleted, changed, upgraded, copied])
async def test_a_collection_comes_back_as_it_was_with_its_names(server, archive, tmp_path, since):
    folder = tmp_path / "b"
    await fill(server, "notes", [1, 2, 3])
    await lead(server, "mine", "notes")
    before = (await server.get_collection("notes")).config
    done = await backup.back_up(archive, ["notes"], folder, NOW, quiet, replace=False)
    await since(server)
    if since is not deleted:
        await lead(server, "own", "notes~1" if since is copied else "notes")

    for _ in range(2):
        assert await restored(archive, folder) == done == {"notes": 3}
        assert await ids(server, "notes") == await ids(server, "mine") == [1, 2, 3]
        after = (await server.get_collection("notes")).config
        assert after.params == before.params
        assert after.metadata == before.metadata
        if since is not deleted:
            assert await ids(server, "own") == [1, 2, 3]
        assert len(await names(server)) == 1
        assert await server.list_snapshots("notes") == []


def garbage(file):
    file.write_bytes(b"\xff" * file.stat().st_size)


def overwritten(file):
    """Bytes of another kind in the middle of the archive, where the segments are."""
    with file.open("r+b") as write:
        for place in range(1 << 14, file.stat().st_size - (1 << 14), 1 << 14):
            write.seek(place)
            write.write(b"\xff" * (1 << 13))


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("form", [1, 2])
@pytest.mark.parametrize("fault", [garbage, overwritten, cut])
async def test_a_damaged_snapshot_leaves_what_is_there(server, archive, tmp_path, fault, form):
    folder = tmp_path / "b"
    await fill(server, "notes", [1, 2, 3])
    await backup.back_up(archive, ["notes"], folder, NOW, quiet, replace=False)
    (file,) = (folder / "snapshots").iterdir()
    fault(file)
    if form == 1:
        said = json.loads((folder / "backup.json").read_text())
        its = said["collections"]["notes"]
        del its["digests"]
        its["files"] = {"snapshots/c-notes.snapshot": file.stat().st_size}
        (folder / "backup.json").write_text(json.dumps({**said, "format": 1}))
    await fill(server, "notes", [4])

    with pytest.raises(QdrantMcpError):
        await restored(archive, folder)
    assert await ids(server, "notes") == [1, 2, 3, 4]
    assert await names(server) == ["notes"]


async def test_a_snapshot_of_another_collection_leaves_what_is_there(server, archive, tmp_path):
    await fill(server, "notes", [1, 2, 3])
    await fill(server, "others", [1, 2])
    folder = tmp_path / "b"
    await backup.back_up(archive, ["notes", "others"], folder, NOW, quiet, replace=False)
    said = json.loads((folder / "backup.json").read_text())
    both = said["collections"]
    del both["others"]["digests"]
    both["notes"] |= {"files": both["others"]["files"], "digests": {}}
    del both["others"]
    (folder / "backup.json").write_text(json.dumps(said))

    with pytest.raises(QdrantMcpError, match="2 of 3 points"):
        await restored(archive, folder)
    assert await ids(server, "notes") == [1, 2, 3]
    assert await names(server) == ["notes", "others"]


async def test_searches_go_on_while_a_collection_is_restored_again(server, archive, tmp_path):
    """The first restore over a collection has a moment without it, later ones have none."""
    folder = tmp_path / "b"
    await fill(server, "notes", range(1, 2_001))
    await backup.back_up(archive, ["notes"], folder, NOW, quiet, replace=False)
    await restored(archive, folder)
    seen, done = [], asyncio.Event()

    async def search():
        while not done.is_set():
            found = await server.query_points("notes", query=[1.0, 3.0], using="v", limit=1)
            seen.append(len(found.points))

    searching = asyncio.create_task(search())
    await restored(archive, folder)
    done.set()
    await searching

    assert len(seen) > 1
    assert set(seen) == {1}
