"""Backups: complete or not there, and nothing overwritten unasked; on the real embedded engine."""

import asyncio
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from qdrant_client import models

from mcp_server_qdrant.app.backup import back_up, restore
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant import backup
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.wire import EdgeOptions
from tests.e2e.raw import clean_environment
from tests.support import make_settings

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def quiet(name, done, total):
    """Tell nobody."""


def settings(folder, **more):
    return make_settings(qdrant_url=None, qdrant_local_path=folder, **more)


async def fill(client, name, numbers):
    if not await client.collection_exists(name):
        vector = models.VectorParams(size=4, distance=models.Distance.COSINE)
        await client.create_collection(name, {"v": vector}, metadata={"model": "m"})
        await client.create_payload_index(name, "n", models.PayloadSchemaType.INTEGER)
    points = [
        models.PointStruct(id=n, vector={"v": [1.0, n, 0, 0]}, payload={"n": n}) for n in numbers
    ]
    await client.upsert(name, points)


async def contents(client, name):
    records, _ = await client.scroll(name, limit=10_000, with_vectors=True)
    return {record.id: (record.payload, record.vector) for record in records}


@pytest.fixture
async def client(tmp_path):
    client = await EdgeClient.open(tmp_path / "engine", options=EdgeOptions(idle_seconds=0.3))
    await fill(client, "notes", range(1, 51))
    await fill(client, "Räume & co", range(1, 6))
    yield client
    await client.close()


async def test_what_was_backed_up_comes_back_as_it_was_while_the_engine_runs(client, tmp_path):
    before = await contents(client, "notes")
    own = settings(tmp_path / "engine")
    told = []

    def tell(*progress):
        told.append(progress)

    done = await back_up(own, tmp_path / "b", [], NOW, tell, replace=False)
    await client.delete("notes", [1, 2, 3])
    await client.delete_collection("Räume & co")
    with pytest.raises(RequestError, match="Already there: notes"):
        await restore(own, tmp_path / "b", [], quiet, replace=False)
    unchanged = await client.collection_exists("Räume & co")
    back = await restore(own, tmp_path / "b", [], quiet, replace=True)

    assert done == back == {"Räume & co": 5, "notes": 50}
    assert told == [("Räume & co", 0, 2), ("notes", 1, 2)]
    assert not unchanged
    assert await contents(client, "notes") == before
    info = await client.get_collection("notes")
    assert info.config.metadata == {"model": "m"}
    assert list(info.payload_schema) == ["n"]
    await fill(client, "notes", [99])
    assert (await client.count("notes")).count == 51


async def test_a_backup_taken_during_writes_holds_whole_writes(client, tmp_path):
    async def write():
        for start in range(1_000, 3_000, 100):
            await fill(client, "notes", range(start, start + 100))

    writing = asyncio.create_task(write())
    own = settings(tmp_path / "engine")
    done = await back_up(own, tmp_path / "b", ["notes"], NOW, quiet, replace=False)
    await writing
    back = await restore(settings(tmp_path / "other"), tmp_path / "b", [], quiet, replace=False)

    assert back == done
    assert (done["notes"] - 50) % 100 == 0
    assert (await client.count("notes")).count == 2_050


async def test_a_backup_is_a_folder_that_the_engine_can_open(client, tmp_path):
    await back_up(settings(tmp_path / "engine"), tmp_path / "b", [], NOW, quiet, replace=False)
    copy = await EdgeClient.open(tmp_path / "b", options=EdgeOptions(idle_seconds=0.3))

    assert await contents(copy, "notes") == await contents(client, "notes")
    await copy.close()


async def test_nothing_is_overwritten_unasked_and_no_half_folder_is_left(client, tmp_path):
    own, place = settings(tmp_path / "engine"), tmp_path / "b"
    await back_up(own, place, ["notes"], NOW, quiet, replace=False)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    (tmp_path / "file").touch()

    refusals = [
        (place, [], False, "holds a backup"),
        (full, [], True, "is not empty, and no backup"),
        (tmp_path / "file", [], True, "is a file"),
        (tmp_path / "new", ["noets"], False, "There is no collection 'noets'; there is notes"),
    ]
    for folder, names, replace, sentence in refusals:
        with pytest.raises(RequestError, match=sentence):
            await back_up(own, folder, names, NOW, quiet, replace=replace)

    def stop(name, done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await back_up(own, tmp_path / "new", [], NOW, stop, replace=False)
    with pytest.raises(KeyboardInterrupt):
        await back_up(own, place, [], NOW, stop, replace=True)

    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "engine", "file", "full"]
    assert list(backup.read(place)[1]) == ["notes"]
    assert await back_up(own, place, [], NOW, quiet, replace=True) == {"Räume & co": 5, "notes": 50}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "engine", "file", "full"]


def damaged(path):
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path):
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "collections": {"notes": {"points": 1}}}))


def of_a_server(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "engine": "server"}))


@pytest.mark.parametrize(
    ("file", "fault", "sentence"),
    [
        ("shards/c-notes.json", damaged, "The backup of 'notes' is damaged: shards/c-notes.json"),
        ("backup.json", damaged, "cannot be read"),
        ("backup.json", emptied, "cannot be read"),
        ("backup.json", of_a_server, "is of a Qdrant server, and the settings name the embedded"),
        ("backup.json", lambda path: path.unlink(), "There is no backup in"),
    ],
)
async def test_a_damaged_backup_changes_nothing(client, tmp_path, file, fault, sentence):
    own, place = settings(tmp_path / "engine"), tmp_path / "b"
    await back_up(own, place, ["notes"], NOW, quiet, replace=False)
    fault(place / file)

    with pytest.raises(RequestError, match=sentence):
        await restore(own, place, [], quiet, replace=True)
    assert (await client.count("notes")).count == 50


async def test_the_allow_list_and_read_only_hold(client, tmp_path):
    own, place = settings(tmp_path / "engine"), tmp_path / "b"
    some = settings(tmp_path / "engine", qdrant_collections=("notes",))

    assert await back_up(some, place, [], NOW, quiet, replace=False) == {"notes": 50}
    with pytest.raises(RequestError, match="There is no collection 'Räume & co'"):
        await back_up(some, tmp_path / "c", ["Räume & co"], NOW, quiet, replace=False)
    await back_up(own, place, [], NOW, quiet, replace=True)
    with pytest.raises(RequestError, match="is not among QDRANT_COLLECTIONS"):
        await restore(some, place, [], quiet, replace=True)
    with pytest.raises(Exception, match="QDRANT_READ_ONLY is set"):
        await restore(
            settings(tmp_path / "engine", qdrant_read_only=True), place, [], quiet, replace=True
        )


async def test_a_killed_backup_is_not_there_and_the_next_one_is(client, tmp_path):
    await fill(client, "notes", range(100, 2_000))
    env = clean_environment({"QDRANT_LOCAL_PATH": str(tmp_path / "engine")})
    words = [sys.executable, "-P", "-m", "mcp_server_qdrant", "backup", str(tmp_path / "b")]
    killed = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while killed.poll() is None and not (tmp_path / ".b.part").exists():
        await asyncio.sleep(0.001)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()

    assert (tmp_path / "b").exists() == (tmp_path / "b" / "backup.json").exists()
    done = await asyncio.to_thread(
        subprocess.run, [*words, "--overwrite"], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "'Räume & co': 5 points",
        "notes: 1,950 points",
        "Done: 2 collections.",
    ]
    assert not (tmp_path / ".b.part").exists()
