"""Snapshots, against a small server of the test's own; tests/live has a real one."""

import errno
import json
import os
from datetime import UTC, datetime
from hashlib import sha256

import httpx
import pytest

from mcp_server_qdrant.core.errors import (
    AccessRefused,
    EngineFailure,
    EngineUnavailable,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.qdrant.upkeep import backup, manifest
from mcp_server_qdrant.qdrant.upkeep.backup import ServerArchive
from mcp_server_qdrant.qdrant.upkeep.snapshots import Snapshots

NOW = datetime(2026, 11, 22, tzinfo=UTC)
DATA = b"the data of notes"


class Server:
    """A Qdrant server, as far as snapshots go."""

    def __init__(self):
        self.collections = {"notes~1": DATA}
        self.aliases = {"notes": "notes~1", "mine": "notes~1"}
        self.snapshots = {}
        self.digest = sha256(DATA).hexdigest()
        self.peers = {"1": {}}
        self.status = 200
        self.keys = set()
        self.broken = False
        self.asked = []

    def __call__(self, request):
        self.keys.add(request.headers.get("api-key"))
        self.asked.append(f"{request.method} {request.url.path}")
        if self.status != 200:
            return httpx.Response(self.status, json={})
        result = self.result(request.method, request.url.path.split("/")[1:], request)
        return httpx.Response(404) if result is None else result

    def result(self, method, path, request):  # noqa: C901
        match method, path:
            case "GET", ["cluster"]:
                value = {"status": "enabled", "peers": self.peers}
            case "GET", ["collections"]:
                value = {"collections": [{"name": name} for name in self.collections]}
            case "GET", ["aliases"]:
                pairs = self.aliases.items()
                value = {"aliases": [{"alias_name": a, "collection_name": c} for a, c in pairs]}
            case "POST", ["collections", "aliases"]:
                for action in json.loads(request.content)["actions"]:
                    made = action["create_alias"]
                    assert made["alias_name"] not in self.collections
                    self.aliases[made["alias_name"]] = made["collection_name"]
                value = True
            case "DELETE", ["collections", name]:
                value = self.collections.pop(name, None) is not None
                self.aliases = {a: c for a, c in self.aliases.items() if c != name}
            case "POST", ["collections", name, "points", "count"]:
                name = self.aliases.get(name, name)
                value = {"count": len(self.collections[name])}
            case "POST", ["collections", name, "snapshots"] if name in self.collections:
                self.snapshots["one.snapshot"] = self.collections[name]
                value = {"name": "one.snapshot", "checksum": self.digest}
            case "GET", ["collections", _, "snapshots", file]:
                return httpx.Response(200, content=self.snapshots[file])
            case "DELETE", ["collections", _, "snapshots", file]:
                value = bool(self.snapshots.pop(file))
            case "POST", ["collections", name, "snapshots", "upload"]:
                assert request.url.params["priority"] == "snapshot"
                assert name not in self.collections, "what is there is left alone"
                head, data = request.read().split(b"\r\n\r\n", 1)
                assert b'name="snapshot"' in head
                self.collections[name] = data.rsplit(b"\r\n--", 1)[0]
                if self.broken:
                    return httpx.Response(500)
                self.snapshots[head.split(b'filename="')[1].split(b'"')[0].decode()] = data
                value = True
            case _:
                return None
        return httpx.Response(200, json={"result": value})


@pytest.fixture
async def server():
    return Server()


@pytest.fixture
async def snapshots(server):
    opened = Snapshots("http://qdrant:6333", "key")
    transport = httpx.MockTransport(server)
    opened._http._transport = transport
    opened._http._mounts = {}
    yield opened
    await opened.close()


def quiet(name, done, total):
    """Tell nobody."""


@pytest.fixture
async def saved(server, snapshots, tmp_path):
    """A backup of the collection, and what its restore needs."""
    archive, folder = ServerArchive(snapshots), tmp_path / "b"
    done = await backup.back_up(archive, ["notes"], folder, NOW, quiet, replace=False)
    assert done == {"notes": len(DATA)}
    assert server.snapshots == {}

    async def restore(*, replace):
        found = manifest.read(folder)
        wanted, there = found.collections, await snapshots.names()
        backup.check(archive, folder, found.engine, wanted, there, replace=replace)
        return await backup.restore(archive, folder, wanted, quiet, replace=replace)

    return restore


async def test_a_collection_comes_back_with_its_name_and_its_aliases(server, saved):
    server.collections, server.aliases = {}, {}

    assert await saved(replace=False) == {"notes": len(DATA)}
    assert server.collections == {"notes": DATA}
    assert server.aliases == {"mine": "notes"}
    assert server.snapshots == {}
    assert server.keys == {"key"}


@pytest.mark.parametrize("copied", [False, True])
async def test_the_new_one_is_whole_before_the_name_leads_to_it_instead_of_to_the_old(
    server, saved, copied
):
    server.collections = {"notes~1": b"old"} if copied else {"notes": b"old"}
    server.aliases = {"notes": "notes~1", "own": "notes~1"} if copied else {"own": "notes"}
    server.asked.clear()
    with pytest.raises(RequestError, match="Already there: notes"):
        await saved(replace=False)

    assert await saved(replace=True) == {"notes": len(DATA)}
    place, old = "notes~restored-1", "notes~1" if copied else "notes"
    assert server.collections == {place: DATA}
    assert server.aliases == dict.fromkeys(("notes", "own", "mine"), place)
    counted = server.asked.index(f"POST /collections/{place}/points/count")
    assert counted < server.asked.index(f"DELETE /collections/{old}")
    if copied:  # then the name is never nobody's
        led = server.asked.index("POST /collections/aliases")
        assert led < server.asked.index(f"DELETE /collections/{old}")


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("fault", ["broken", "fewer"])
async def test_a_snapshot_that_is_not_whole_leaves_everything_as_it_was(
    server, saved, tmp_path, fault, there
):
    server.collections = {"notes": b"old"} if there else {}
    server.aliases = {}
    server.broken = fault == "broken"
    if fault == "fewer":
        said = (tmp_path / "b" / "backup.json").read_text()
        (tmp_path / "b" / "backup.json").write_text(said.replace(f":{len(DATA)}", ":99", 1))

    sentence = "17 of 99 points" if fault == "fewer" else "status 500"
    with pytest.raises(QdrantMcpError, match=sentence):
        await saved(replace=True)
    assert server.collections == ({"notes": b"old"} if there else {})
    assert server.aliases == {}


async def test_what_a_killed_restore_left_is_removed_once_another_is_whole(server, saved):
    others = dict.fromkeys(("notes~7", "notes~restored-x", "other~restored-1"), b"")
    server.collections = {"notes~restored-2": b"old", "notes~restored-1": b"half", **others}
    server.aliases = {"notes": "notes~restored-2"}

    assert await saved(replace=True) == {"notes": len(DATA)}
    assert server.collections == {"notes~restored-3": DATA, **others}

    server.collections, server.aliases = {"notes~restored-1": b"the last"}, {}
    server.broken = True
    with pytest.raises(QdrantMcpError):
        await saved(replace=True)
    assert server.collections == {"notes~restored-1": b"the last"}


async def test_a_snapshot_that_changed_on_the_disk_is_not_sent(server, saved, tmp_path):
    (file,) = (tmp_path / "b" / "snapshots").iterdir()
    file.write_bytes(DATA[::-1])
    server.asked.clear()

    with pytest.raises(RequestError, match=r"c-notes\.snapshot is not as it was saved"):
        await saved(replace=True)
    assert not any("upload" in asked for asked in server.asked)


@pytest.mark.parametrize(("replace", "leads"), [(False, "other"), (True, "notes")])
async def test_an_alias_that_leads_elsewhere_is_moved_only_where_that_is_wanted(
    server, saved, replace, leads
):
    server.collections, server.aliases = {"other": b"others"}, {"mine": "other"}
    await saved(replace=replace)

    assert server.aliases == {"mine": leads}


async def test_a_backup_of_format_1_calls_a_copy_by_its_alias(server, saved, tmp_path):
    file = tmp_path / "b" / "backup.json"
    said = json.loads(file.read_text())
    its = said["collections"].pop("notes")
    del its["digests"]
    its["aliases"] = ["mine", "notes"]
    file.write_text(json.dumps({**said, "format": 1, "collections": {"notes~1": its}}))
    server.collections, server.aliases = {}, {}

    assert await saved(replace=False) == {"notes": len(DATA)}
    assert (server.collections, server.aliases) == ({"notes": DATA}, {"mine": "notes"})


async def test_a_snapshot_that_arrives_damaged_is_refused_and_removed(server, snapshots, tmp_path):
    server.digest = "0" * 64

    with pytest.raises(EngineFailure, match="The snapshot of 'notes' arrived damaged"):
        await snapshots.save("notes", tmp_path / "file")
    assert server.snapshots == {}


async def test_a_backup_that_does_not_fit_on_the_disk_is_a_sentence(
    server, snapshots, tmp_path, monkeypatch
):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(manifest, "digest", full)
    archive = ServerArchive(snapshots)

    with pytest.raises(EngineFailure, match="cannot be written: No space left on device"):
        await backup.back_up(archive, ["notes"], tmp_path / "b", NOW, quiet, replace=False)
    assert [*tmp_path.iterdir()] == []


async def test_a_cluster_is_refused_whose_snapshots_are_of_one_node(server, snapshots):
    server.peers = {"1": {}, "2": {}}

    with pytest.raises(RequestError, match="This is a cluster"):
        await snapshots.names()


@pytest.mark.parametrize(
    ("status", "error", "sentence"),
    [
        (403, AccessRefused, "check QDRANT_API_KEY"),
        (404, UnknownCollection, "There is no collection 'notes'"),
        (500, EngineFailure, "Qdrant answered with status 500"),
    ],
)
async def test_refusals_are_sentences(server, snapshots, status, error, sentence):
    server.status = status

    with pytest.raises(error, match=sentence):
        await snapshots.count("notes")


async def test_a_server_that_is_not_there_is_a_sentence():
    snapshots = Snapshots("http://127.0.0.1:1", None)

    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await snapshots.names()
    await snapshots.close()
