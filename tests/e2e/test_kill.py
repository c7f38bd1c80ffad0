"""Nothing acknowledged is lost when the server or the engine host is killed."""

import os
import shutil
import signal
from pathlib import Path

from tests.e2e.raw import RawServer, host_pid, text_of

STORES = 6


def _store_some(server: RawServer, round_: int, kill) -> list[str]:
    """Stores a few texts, `kill` striking at one of them; the ids that were acknowledged."""
    acknowledged = []
    strike = round_ % STORES
    for number in range(STORES):
        key = f"r{round_}-{number}"
        text = f"Fact {number} of round {round_}: shelf {round_ * 31 + number}."
        arguments = {"information": text, "collection_name": "facts", "id": key}
        server.send("tools/call", {"name": "qdrant-store", "arguments": arguments})
        if number == strike:
            kill()
        try:
            message = server.answer()
        except EOFError:
            break
        if not message["result"].get("isError"):
            acknowledged.append(key)
    return acknowledged


def _missing(server: RawServer, ids: list[str]) -> list[str]:
    missing: list[str] = []
    for first in range(0, len(ids), 50):
        wanted = ids[first : first + 50]
        got = server.call("qdrant-get", ids=wanted, collection_name="facts")
        if got.get("isError"):
            missing += wanted
        else:
            missing += got["structuredContent"]["missing"]
    return missing


def test_every_acknowledged_store_survives_kills_of_the_engine_host(env, tmp_path, rounds):
    folder = Path(env["QDRANT_LOCAL_PATH"])
    server = RawServer(env, tmp_path)
    server.call("qdrant-store", information="The first.", collection_name="facts", id="first")
    acknowledged, killed = ["first"], 0
    for round_ in range(rounds):

        def kill() -> None:
            nonlocal killed
            pid = host_pid(folder)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                killed += 1

        acknowledged += _store_some(server, round_, kill)

    assert killed == rounds
    assert len(acknowledged) > rounds * STORES * 0.9
    assert _missing(server, acknowledged) == []
    server.close()


def test_every_acknowledged_store_survives_kills_of_the_server(env, tmp_path, rounds):
    acknowledged = []
    for round_ in range(rounds):
        server = RawServer(env, tmp_path)
        acknowledged += _store_some(server, round_, server.process.kill)
        server.kill()

    server = RawServer(env, tmp_path)

    # Each round is cut off at another store, and those before it were answered.
    assert len(acknowledged) >= sum(round_ % STORES for round_ in range(rounds))
    assert _missing(server, acknowledged) == []
    server.close()


def test_a_server_whose_data_folder_is_deleted_goes_on_with_a_new_one(env, tmp_path):
    folder = Path(env["QDRANT_LOCAL_PATH"])
    server = RawServer(env, tmp_path)
    server.call("qdrant-store", information="The first.", collection_name="facts")
    shutil.rmtree(folder)

    refusals = set()
    for _ in range(1000):
        stored = server.call("qdrant-store", information="The second.", collection_name="facts")
        if not stored.get("isError"):
            break
        refusals.add(text_of(stored))
    found = server.call("qdrant-find", query="second", collections=["*"])
    status, log = server.close()

    # None where the host noticed the deletion before the store came, and a new one took it.
    assert [text for text in refusals if "was deleted or moved" not in text] == []
    assert [one["text"] for one in found["structuredContent"]["results"]] == ["The second."]
    assert (status, log) == (0, "")
