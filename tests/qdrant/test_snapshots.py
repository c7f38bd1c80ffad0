"""Snapshots, against a small server of the test's own; tests/live has a real one."""

import json
from datetime import UTC, datetime
from hashlib import sha256

import httpx
import pytest

from mcp_server_qdrant.core.errors import (
    AccessRefused,
    EngineFailure,
    EngineUnavailable,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.qdrant import backup
from mcp_server_qdrant.qdrant.backup import ServerArchive
from mcp_server_qdrant.qdrant.snapshots import Snapshots

NOW = datetime(2026, 11, 22, tzinfo=UTC)
DATA = b"the data of notes"


class Server:
    """A Qdrant server, as far as snapshots go."""

    def __init__(self):
        self.collections = {"notes~1": DATA}
        self.aliases = {"notes": "notes~1"}
        self.snapshots = {}
        self.digest = sha256(DATA).hexdigest()
        self.peers = {"1": {}}
        self.status = 200
        self.keys = set()

    def __call__(self, request):
        self.keys.add(request.headers.get("api-key"))
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
                value = {"aliases": self.described(lambda _: True)}
            case "GET", ["collections", name, "aliases"]:
                value = {"aliases": self.described(lambda one: one == name)}
            case "POST", ["collections", "aliases"]:
                for action in json.loads(request.content)["actions"]:
                    if gone := action.get("delete_alias"):
                        del self.aliases[gone["alias_name"]]
                    if made := action.get("create_alias"):
                        self.aliases[made["alias_name"]] = made["collection_name"]
                value = True
            case "POST", ["collections", name, "points", "count"] if name in self.collections:
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
                head, data = request.read().split(b"\r\n\r\n", 1)
                assert b'name="snapshot"' in head
                self.collections[name] = data.rsplit(b"\r\n--", 1)[0]
                self.snapshots[head.split(b'filename="')[1].split(b'"')[0].decode()] = data
                value = True
            case _:
                return None
        return httpx.Response(200, json={"result": value})

    def described(self, wanted):
        pairs = self.aliases.items()
        return [{"alias_name": a, "collection_name": c} for a, c in pairs if wanted(c)]


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


async def test_a_collection_comes_back_with_its_aliases(server, snapshots, tmp_path):
    archive, folder = ServerArchive(snapshots), tmp_path / "b"
    names = await snapshots.names()
    done = await backup.back_up(archive, names, folder, NOW, quiet, replace=False)
    left = dict(server.snapshots)
    server.collections, server.aliases = {}, {}
    kind, saved = backup.read(folder)
    backup.check(archive, folder, kind, saved, await snapshots.names(), replace=False)
    back = await backup.restore(archive, folder, saved, quiet, replace=False)

    assert done == back == {"notes~1": len(DATA)}
    assert server.collections == {"notes~1": DATA}
    assert server.aliases == {"notes": "notes~1"}
    assert left == server.snapshots == {}
    assert server.keys == {"key"}


@pytest.mark.parametrize(("replace", "leads"), [(False, "other"), (True, "notes~1")])
async def test_an_alias_that_leads_elsewhere_is_moved_only_where_that_is_wanted(
    server, snapshots, replace, leads
):
    server.aliases = {"notes": "other"}
    await snapshots.lead("notes", "notes~1", replace=replace)

    assert server.aliases == {"notes": leads}


async def test_a_snapshot_that_arrives_damaged_is_refused_and_removed(server, snapshots, tmp_path):
    server.digest = "0" * 64

    with pytest.raises(EngineFailure, match="The snapshot of 'notes~1' arrived damaged"):
        await snapshots.save("notes~1", tmp_path / "file")
    assert server.snapshots == {}


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
