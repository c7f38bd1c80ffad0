"""Five assistants on one folder: what each of them starts is a pipe to one service."""

import random
import threading

import pytest

from tests.e2e.raw import RawServer, kill_service, text_of

pytestmark = pytest.mark.model(False)

CLIENTS = 5


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


def test_clients_that_start_at_once_start_one_service(env, tmp_path):
    servers = at_once([env] * CLIENTS, lambda _, env: RawServer(env, tmp_path))
    stored = at_once(servers, lambda number, server: store(server, str(number)))
    found = servers[0].call("qdrant-find", query="what is known", collections=["facts"], limit=9)

    assert stored == [True] * CLIENTS
    assert len(found["structuredContent"]["results"]) == CLIENTS
    for server in servers:
        assert server.close() == (0, "")


def test_every_acknowledged_store_of_five_clients_survives_kills_of_the_service(
    env, tmp_path, rounds
):
    servers = [RawServer(env, tmp_path) for _ in range(CLIENTS)]
    assert store(servers[0], "first")
    acknowledged, unanswered, killed = ["first"], [], []
    moments = random.Random(11)
    for round_ in range(rounds):

        def work(number: int, server: RawServer, round_: int = round_) -> tuple[list[str], dict]:
            keys = [f"r{round_}-{number}-{n}" for n in range(2)]
            return [key for key in keys if store(server, key)], find(server)

        strike = threading.Timer(
            moments.uniform(0, 0.1), lambda: killed.append(kill_service(tmp_path / "engine"))
        )
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
    # A strike may come before a service is back from the one before.
    assert killed.count(True) > rounds / 2, killed
    assert unanswered == []
    # Of each client one store may be under way at a strike.
    assert len(acknowledged) > rounds * CLIENTS
    assert missing == []
    assert ["collections" in one["structuredContent"] for one in again] == [False] * CLIENTS
    for server in servers:
        assert server.close()[0] == 0
