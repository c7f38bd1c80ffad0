"""Snapshots of a real server: saved, and brought back."""

from datetime import UTC, datetime

import pytest
from qdrant_client import models

from mcp_server_qdrant.qdrant import backup
from mcp_server_qdrant.qdrant.backup import ServerArchive
from mcp_server_qdrant.qdrant.snapshots import Snapshots
from tests.live.conftest import URL

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def quiet(name, done, total):
    """Tell nobody."""


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "changed"])
async def test_a_collection_comes_back_as_it_was_with_its_aliases(server, tmp_path, gone):
    vector = models.VectorParams(size=2, distance=models.Distance.COSINE)
    await server.create_collection("notes~1", vectors_config={"v": vector})
    points = [models.PointStruct(id=n, vector={"v": [1, n]}, payload={"n": n}) for n in (1, 2, 3)]
    await server.upsert("notes~1", points, wait=True)
    alias = models.CreateAlias(collection_name="notes~1", alias_name="notes")
    await server.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])
    snapshots = Snapshots(URL, None)
    archive, folder = ServerArchive(snapshots), tmp_path / "b"

    done = await backup.back_up(archive, ["notes~1"], folder, NOW, quiet, replace=False)
    if gone:
        await server.delete_collection("notes~1")
    else:
        await server.delete("notes~1", points_selector=[1], wait=True)
    _, saved = backup.read(folder)
    back = await backup.restore(archive, folder, saved, quiet, replace=True)
    found, _ = await server.scroll("notes", with_payload=True)
    left = await server.list_snapshots("notes~1")
    await snapshots.close()

    assert done == back == {"notes~1": 3}
    assert [(one.id, one.payload) for one in found] == [(n, {"n": n}) for n in (1, 2, 3)]
    assert left == []
