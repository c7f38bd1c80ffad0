"""Backups: complete or not there, and nothing overwritten unasked; on the real embedded engine."""

import asyncio
import errno
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from qdrant_client import models

from mcp_server_qdrant.app.upkeep import back_up, restore
from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.qdrant import backup
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import slug_of
from tests import forked
from tests.e2e.raw import clean_environment
from tests.qdrant.edge.here import crashed
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
        await client.create_payload_indexes(name, {"n": models.PayloadSchemaType.INTEGER})
    points = [
        models.PointStruct(id=n, vector={"v": [1.0, n, 0, 0]}, payload={"n": n}) for n in numbers
    ]
    await client.upsert(name, points)


async def contents(client, name):
    records, _ = await client.scroll(name, limit=10_000, with_vectors=True)
    return {record.id: (record.payload, record.vector) for record in records}


@asynccontextmanager
async def opened(folder):
    client = await EdgeClient.open(folder)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture(autouse=True)
def joined(monkeypatch):
    """A folder that this process has open is not opened again: its engine is used."""
    alone, there = EdgeClient.open, []

    async def open_or_join(path, **_):
        for one in there:
            if one._lock and one._engine.store.folder.root == path.absolute():
                return EdgeClient(one._engine, 60)
        there.append(await alone(path))
        return there[-1]

    monkeypatch.setattr(EdgeClient, "open", open_or_join)


@pytest.fixture
async def client(tmp_path):
    client = await EdgeClient.open(tmp_path / "engine")
    await fill(client, "notes", range(1, 51))
    await fill(client, "Räume & co", range(1, 6))
    yield client
    await client.close()


@pytest.fixture
def own(tmp_path):
    return settings(tmp_path / "engine")


@pytest.fixture
def place(tmp_path):
    """Where the backup goes."""
    return tmp_path / "b"


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


KINDS = {
    "d": [0.1, -2.5, 3e-7, 1e30],
    "many": [[1.0, 2.0], [3.0, 4.0]],
    "s": models.SparseVector(indices=[0, 7, 2**32 - 1], values=[0.25, 1.0, -3.0]),
}


async def test_every_kind_of_vector_id_and_payload_comes_back(tmp_path):
    async with opened(tmp_path / "engine") as client:
        await client.create_collection(
            "odd",
            {
                "d": models.VectorParams(size=4, distance="Dot"),
                "many": models.VectorParams(
                    size=2,
                    distance="Dot",
                    multivector_config=models.MultiVectorConfig(comparator="max_sim"),
                ),
            },
            {"s": models.SparseVectorParams(modifier="idf")},
            metadata={"model": "m"},
        )
        await client.create_collection("plain", models.VectorParams(size=2, distance="Dot"))
        identifiers = [0, 2**64 - 1, "12345678-1234-5678-1234-567812345678"]
        payload = {"text": "\u2028 line\nline \x00", "deep": {"list": [1, 2.5, None, True]}}
        await client.upsert(
            "odd",
            [
                *(models.PointStruct(id=i, vector=KINDS, payload=payload) for i in identifiers),
                models.PointStruct(id=5, vector={}, payload={}),
            ],
        )
        await client.upsert("plain", [models.PointStruct(id=1, vector=[1.0, 2.0], payload={})])
        before = {name: await contents(client, name) for name in ("odd", "plain")}
        own = settings(tmp_path / "engine")
        await back_up(own, tmp_path / "b", [], NOW, quiet, replace=False)
        await restore(settings(tmp_path / "other"), tmp_path / "b", [], quiet, replace=False)
    async with opened(tmp_path / "other") as other:
        after = {name: await contents(other, name) for name in ("odd", "plain")}

    assert after == before
    assert before["odd"].keys() == {*identifiers, 5}


async def test_nothing_that_was_deleted_is_in_a_backup(client, tmp_path):
    secret = models.PointStruct(id=77, vector={"v": [1.0, 0, 0, 0]}, payload={"says": "hush-hush"})
    await client.upsert("notes", [secret])
    await client.delete("notes", [77])
    await back_up(settings(tmp_path / "engine"), tmp_path / "b", [], NOW, quiet, replace=False)

    assert b"hush" not in b"".join(path.read_bytes() for path in (tmp_path / "b").iterdir())


async def test_nothing_is_overwritten_unasked_and_no_half_folder_is_left(
    client, own, place, tmp_path
):
    await back_up(own, place, ["notes"], NOW, quiet, replace=False)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    (tmp_path / "file").touch()

    refusals = [
        (place, [], False, "holds a backup"),
        (full, [], True, "is not empty and not a backup"),
        (tmp_path / "file", [], True, "is a file"),
        (
            tmp_path / "new",
            ["noets"],
            False,
            "There is no collection 'noets'. Did you mean 'notes'",
        ),
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
    assert list(backup.read_manifest(place)) == ["notes"]
    assert await back_up(own, place, [], NOW, quiet, replace=True) == {"Räume & co": 5, "notes": 50}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "engine", "file", "full"]


POINTS = "c-notes.points"


def said(place, change):
    """Change what the manifest says."""
    found = json.loads((place / "backup.json").read_text())
    change(found)
    (place / "backup.json").write_text(json.dumps(found))


def rewritten(change):
    """Change the file's lines, and let its digest be right."""

    def fault(place):
        lines = [json.loads(line) for line in (place / POINTS).read_bytes().splitlines()]
        change(lines)
        made = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        (place / POINTS).write_bytes(made)
        saved = {"digest": hashlib.sha256(made).hexdigest()}
        said(place, lambda found: found["collections"]["notes"].update(saved))

    return fault


def overwritten(place):
    """Bytes of another kind, as many as before."""
    with (place / POINTS).open("r+b") as write:
        write.seek(-100, os.SEEK_END)
        write.write(b"\xff" * 100)


def of_another_value(place):
    """A file that is sound but for its digest."""
    (place / POINTS).write_bytes((place / POINTS).read_bytes().replace(b'"n":30', b'"n":31'))


def shortened(place):
    os.truncate(place / POINTS, (place / POINTS).stat().st_size // 2)


def exchanged(by):
    """Something else in the place of a file."""

    def fault(place):
        file = place / POINTS
        file.rename(place.parent / "elsewhere")
        by(file, place.parent / "elsewhere")

    return fault


def of_another_number(place):
    said(place, lambda found: found["collections"]["notes"].update(points=49))


def of_another(place):
    """The manifest names a collection whose file is another one's."""
    other = place / "c-other.points"
    (place / POINTS).rename(other)
    said(place, lambda found: found.update(collections={"other": found["collections"]["notes"]}))


DAMAGE = [
    overwritten,
    of_another_value,
    shortened,
    exchanged(lambda file, _: os.mkfifo(file)),
    exchanged(lambda file, elsewhere: file.symlink_to(elsewhere)),
    exchanged(lambda file, _: file.mkdir()),
    exchanged(lambda file, _: None),
    of_another,
    of_another_number,
    rewritten(lambda lines: lines[0].update(name="notes2")),
    rewritten(lambda lines: lines[0].pop("vectors")),
    rewritten(lambda lines: lines[0].update(vectors=[])),
    rewritten(lambda lines: lines[0].update(sparse_vectors=None)),
    rewritten(lambda lines: lines[0].update(metadata=[1])),
    rewritten(lambda lines: lines[0].update(indexes={"n": "no kind"})),
    rewritten(lambda lines: lines.clear()),
    rewritten(lambda lines: lines.pop()),
    rewritten(lambda lines: lines.insert(30, 7)),
    rewritten(lambda lines: lines[30].pop()),
    rewritten(lambda lines: lines.append([51, *lines[1][1:]])),
    rewritten(lambda lines: lines[30].__setitem__(0, "no id")),
    rewritten(lambda lines: lines[30].__setitem__(0, -1)),
    rewritten(lambda lines: lines[30].__setitem__(1, {"named": {"v": "!"}})),
    rewritten(lambda lines: lines[30].__setitem__(1, {"named": {"v": "AAAAAA=="}})),
    rewritten(lambda lines: lines[30].__setitem__(1, {"named": {"other": "AAAAAA=="}})),
    rewritten(lambda lines: lines[30].__setitem__(2, "no payload")),
]


async def test_a_damaged_backup_changes_nothing(client, own, place, tmp_path):
    before = await contents(client, "notes")
    told = []
    for fault in DAMAGE:
        await back_up(own, place, ["notes"], NOW, quiet, replace=True)
        fault(place)
        with pytest.raises(RequestError) as refusal:
            await restore(own, place, [], quiet, replace=True)
        told.append(str(refusal.value))
        for left in (place, tmp_path / "elsewhere"):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)

    damaged = r"The backup of '(notes|other)' is damaged: "
    assert [one for one in told if not re.match(damaged, one)] == []
    assert await contents(client, "notes") == before
    names = [one.name for one in (await client.get_collections()).collections]
    assert names == ["Räume & co", "notes"]
    assert described(tmp_path / "engine") == [slug_of(name) for name in names]


def described(engine):
    """The slugs of all collections, also of those that nobody sees."""
    return sorted({path.stem for path in (engine / "collections").iterdir()})


ODD = [
    ([], "cannot be read"),
    ({}, "cannot be read"),
    ({"format": 99}, "cannot be read: it is damaged, or from another version"),
    ({"collections": [1]}, "cannot be read"),
    ({"collections": {"notes": {"points": 1}}}, "cannot be read"),
    ({"collections": {"notes": {"points": "x", "digest": ""}}}, "cannot be read"),
    ({"collections": {"notes": {"points": -1, "digest": ""}}}, "cannot be read"),
    ({"collections": {"notes": {"points": 1, "digest": ["a"]}}}, "cannot be read"),
    ({"collections": {"\0": {"points": 1, "digest": ""}}}, "is damaged"),
    ({"collections": {"../notes": {"points": 1, "digest": ""}}}, "is damaged"),
    ({"collections": {"/etc/passwd": {"points": 1, "digest": ""}}}, "is damaged"),
]


async def test_an_odd_manifest_is_one_sentence(client, own, place):
    await back_up(own, place, ["notes"], NOW, quiet, replace=False)
    whole = json.loads((place / "backup.json").read_text())
    texts = [
        (json.dumps(whole | odd if odd else odd), sentence)  # the empty ones are all there is
        for odd, sentence in ODD
    ]
    for text, sentence in [*texts, ("[" * 100_000, "cannot be read"), ("{", "cannot be read")]:
        (place / "backup.json").write_text(text)
        with pytest.raises(RequestError, match=sentence):
            await restore(own, place, [], quiet, replace=True)
    (place / "backup.json").unlink()
    with pytest.raises(RequestError, match="There is no backup in"):
        await restore(own, place, [], quiet, replace=True)
    os.mkfifo(place / "backup.json")
    with pytest.raises(RequestError, match="cannot be read"):
        await restore(own, place, [], quiet, replace=True)

    assert (await client.count("notes")).count == 50


async def test_nothing_is_read_from_a_backup_but_what_was_saved(client, own, place):
    await back_up(own, place, ["notes"], NOW, quiet, replace=False)
    os.mkfifo(place / "c-pipe.points")
    (place / "c-link.points").symlink_to(place / POINTS)
    shutil.copy(place / POINTS, place / "c-more.points")

    assert await restore(own, place, [], quiet, replace=True) == {"notes": 50}
    names = [one.name for one in (await client.get_collections()).collections]
    assert names == ["Räume & co", "notes"]


async def test_a_fault_in_one_of_several_names_those_that_are_back(client, own, place):
    await back_up(own, place, [], NOW, quiet, replace=False)
    overwritten(place)
    await client.delete("Räume & co", [1])

    with pytest.raises(RequestError, match=r"'notes' is damaged: .* until then: 'Räume & co'\.$"):
        await restore(own, place, [], quiet, replace=True)
    assert (await client.count("Räume & co")).count == 5


async def test_of_a_server_there_are_no_backups(tmp_path):
    with pytest.raises(RequestError, match="make snapshots there"):
        await back_up(make_settings(), tmp_path / "b", [], NOW, quiet, replace=False)
    assert not (tmp_path / "b").exists()


async def test_two_restores_of_a_collection_take_turns(client, own, place):
    await back_up(own, place, [], NOW, quiet, replace=False)
    both = [restore(own, place, ["notes"], quiet, replace=True) for _ in range(2)]

    assert await asyncio.gather(*both) == [{"notes": 50}] * 2


async def test_a_disk_that_fills_up_meanwhile_is_a_sentence(
    client, own, place, tmp_path, monkeypatch
):
    await back_up(own, place, ["notes"], NOW, quiet, replace=False)

    def filling(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(EdgeClient, "put", filling)

    with pytest.raises(EngineFailure, match="cannot be restored: No space left on device"):
        await restore(own, place, [], quiet, replace=True)
    assert (await client.count("notes")).count == 50
    assert described(tmp_path / "engine") == sorted(map(slug_of, ("Räume & co", "notes")))


async def test_of_a_restore_that_was_killed_nothing_is_left_in_the_next_process(
    client, own, place, tmp_path, monkeypatch
):
    await back_up(own, place, ["notes"], NOW, quiet, replace=False)
    before, put, names = await contents(client, "notes"), EdgeClient.put, ("Räume & co", "notes")

    async def killed(self, *given):
        await put(self, *given)
        assert len(described(tmp_path / "engine")) == 3
        crashed(tmp_path / "engine", tmp_path / "left")
        raise EngineFailure("It is over.")

    monkeypatch.setattr(EdgeClient, "put", killed)
    with pytest.raises(EngineFailure, match=r"It is over\."):
        await restore(own, place, [], quiet, replace=True)

    for folder in (tmp_path / "engine", tmp_path / "left"):
        async with opened(folder) as one:
            assert await contents(one, "notes") == before
        assert described(folder) == sorted(map(slug_of, names))


async def test_two_backups_to_one_folder_leave_each_other_alone(client, own, place, tmp_path):
    both = [back_up(own, place, [], NOW, quiet, replace=replace) for replace in (True, False)]
    done = await asyncio.gather(*both, return_exceptions=True)

    (refused,) = [one for one in done if isinstance(one, RequestError)]
    assert "is running: wait for it, or name another folder" in str(refused)
    assert {"Räume & co": 5, "notes": 50} in done
    assert await restore(own, place, [], quiet, replace=True) == {"Räume & co": 5, "notes": 50}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b", "engine"]


async def test_the_allow_list_and_read_only_hold(client, own, place, tmp_path):
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
    await fill(client, "notes", range(100, 1_000))
    await client.close()
    env = clean_environment({"QDRANT_LOCAL_PATH": str(tmp_path / "engine")})
    words = [sys.executable, "-P", "-m", "mcp_server_qdrant", "backup", str(tmp_path / "b")]
    killed = forked.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while killed.poll() is None and not (tmp_path / ".b.part").exists():
        await asyncio.sleep(0.001)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()

    assert (tmp_path / "b").exists() == (tmp_path / "b" / "backup.json").exists()
    done = await asyncio.to_thread(forked.run, [*words, "--overwrite"], env=env, timeout=120)
    assert done.stdout.splitlines() == [
        "'Räume & co': 5 points",
        "notes: 950 points",
        "Done: 2 collections.",
    ]
    assert not (tmp_path / ".b.part").exists()
