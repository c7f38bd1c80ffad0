"""Five assistants on one folder, each with a server process of its own."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.raw import RawServer, host_pid, text_of

CLIENTS = 5
ML = ("onnxruntime", "tokenizers", "fastembed", "huggingface_hub", "py_rust_stemmers")


@pytest.fixture
def env(env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A cache of their own, and so a model host of their own."""
    return {**env, "QDRANT_CACHE_PATH": str(tmp_path / "cache")}


def model_host_pid(cache: Path) -> int | None:
    """The model host of a cache folder, by what it published; None where it has gone."""
    for path in (cache / "hosts").glob("model-host-*.json"):
        try:
            pid = int(json.loads(path.read_text())["pid"])
            os.kill(pid, 0)
        except (OSError, ValueError):
            continue
        return pid
    return None


def at_once(servers: list[RawServer], call) -> list:
    """`call(number, server)` for each, at the same time."""
    found: list = [None] * len(servers)

    def run(number: int) -> None:
        found[number] = call(number, servers[number])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(servers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def store(server: RawServer, key: str) -> bool:
    new = {"information": f"What {key} knows.", "collection_name": "facts", "id": key}
    return not server.call("qdrant-store", **new, create=True).get("isError")


def find(server: RawServer, query: str = "what is known") -> dict:
    return server.call("qdrant-find", query=query, collections=["facts"])


def loaded(server: RawServer) -> list[str]:
    """What the process has loaded of what models need."""
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    return [name for name in ML if f"/{name}/" in maps or f"/{name}." in maps]


@pytest.mark.parametrize("engine", ["folder", "server"])
def test_a_server_that_serves_holds_no_machine_learning(env, tmp_path, one_cache, engine):
    env |= {"QDRANT_CACHE_PATH": str(one_cache)}  # with the model that other tests have loaded
    if engine == "server":
        del env["QDRANT_LOCAL_PATH"]
        env |= {"QDRANT_URL": ":memory:"}
    server = RawServer(env, tmp_path, popen=subprocess.Popen)
    assert server.hello["result"]["serverInfo"]["name"] == "mcp-server-qdrant"
    assert loaded(server) == []

    assert store(server, "one")
    assert "collections" not in find(server)["structuredContent"]
    long = "A sentence of some words that is said again and again.\n\n" * 60
    stored = server.call("qdrant-store", information=long, collection_name="facts")
    assert not stored.get("isError")
    assert loaded(server) == []
    assert model_host_pid(one_cache) is not None
    server.close()


def test_five_clients_share_two_hosts_and_all_find_and_store_at_once(env, tmp_path):
    servers = [RawServer(env, tmp_path) for _ in range(CLIENTS)]
    stored = at_once(
        servers, lambda number, server: [store(server, f"{number}-{n}") for n in range(4)]
    )
    hosts = {host_pid(tmp_path / "engine"), model_host_pid(tmp_path / "cache")}
    found = at_once(servers, lambda _, server: find(server))
    ids = [f"{number}-{n}" for number in range(CLIENTS) for n in range(4)]
    got = at_once(
        servers, lambda _, server: server.call("qdrant-get", ids=ids, collection_name="facts")
    )

    assert stored == [[True] * 4] * CLIENTS
    assert ["collections" in one["structuredContent"] for one in found] == [False] * CLIENTS
    assert [one["structuredContent"]["missing"] for one in got] == [[]] * CLIENTS
    assert hosts == {host_pid(tmp_path / "engine"), model_host_pid(tmp_path / "cache")}
    assert None not in hosts
    for server in servers:
        assert server.close() == (0, "")


def test_every_acknowledged_store_survives_kills_of_both_hosts(env, tmp_path, rounds):
    servers = [RawServer(env, tmp_path) for _ in range(CLIENTS)]
    assert store(servers[0], "first")
    acknowledged, unanswered, killed = ["first"], [], Counter()
    for round_ in range(rounds):

        def work(number: int, server: RawServer, round_: int = round_) -> tuple[list[str], dict]:
            keys = [f"r{round_}-{number}-{n}" for n in range(2)]
            return [key for key in keys if store(server, key)], find(server)

        strike = threading.Timer(0.03 * (round_ % 4), lambda: killed.update(kill(env, tmp_path)))
        strike.start()
        for stored, found in at_once(servers, work):
            acknowledged += stored
            unanswered += [text_of(found)] if found.get("isError") else []
        strike.join()

    again = at_once(servers, lambda _, server: find(server))
    missing: list[str] = []
    for first in range(0, len(acknowledged), 50):
        wanted = acknowledged[first : first + 50]
        got = servers[0].call("qdrant-get", ids=wanted, collection_name="facts")
        missing += got["structuredContent"]["missing"]
    # A strike may come before a host is back from the one before.
    assert min(killed["engine host"], killed["model host"]) > rounds / 2, killed
    assert unanswered == []
    assert len(acknowledged) > rounds * CLIENTS * 2 * 0.9
    assert missing == []
    assert ["collections" in one["structuredContent"] for one in again] == [False] * CLIENTS
    for server in servers:
        assert server.close()[0] == 0


def kill(env: dict[str, str], tmp_path: Path) -> list[str]:
    """Kill both hosts; those that were there."""
    hosts = {
        "engine host": host_pid(Path(env["QDRANT_LOCAL_PATH"])),
        "model host": model_host_pid(tmp_path / "cache"),
    }
    killed = []
    for name, pid in hosts.items():
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            killed.append(name)
    return killed


def test_two_servers_of_different_settings_work_side_by_side(env, tmp_path):
    one = RawServer(env, tmp_path)
    other = RawServer(
        env | {"EMBEDDING_THREADS": "1", "HF_HUB_OFFLINE": "0"},
        tmp_path,
    )

    assert at_once([one, other], lambda number, server: store(server, str(number))) == [True] * 2
    assert "collections" not in find(one)["structuredContent"]
    assert "collections" not in find(other)["structuredContent"]
    assert len(list((tmp_path / "cache" / "hosts").glob("model-host-*.json"))) == 2
    one.close()
    other.close()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_full_disk_leaves_keyword_search_and_is_told_in_a_sentence(env, tmp_path):
    del env["QDRANT_LOCAL_PATH"]
    memory = env | {"QDRANT_URL": ":memory:"}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # What is started meanwhile can write no byte into a file, as on a disk without room.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        server = RawServer(memory, tmp_path, popen=subprocess.Popen)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    stored = server.call("qdrant-store", information="Filter order 4711.", collection_name="facts")
    found = server.call("qdrant-find", query="4711", collections=["facts"])
    server.close()

    full = "The model host could not be started: the disk is full."
    assert f"Found by keywords only, until this is mended: {full}" in text_of(stored)
    assert full in text_of(found)
    assert "4711" in found["structuredContent"]["results"][0]["text"]
    assert found["structuredContent"]["collections"]["facts"].startswith("degraded")
