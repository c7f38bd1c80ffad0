"""A text of 100 parts is there whole, in one version, or not at all, whenever its writer dies.

`tests/ingest/test_parts.py` tries every write in turn.
"""

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.raw import RawServer, kill_service


def text_of(version: int) -> str:
    sentence = (
        f"Version {version:02} of the harbour has a crane and a lighthouse, seen from number "
    )
    return "\n\n".join(f"{sentence}{n}. " * 5 for n in range(100))


def store(version: int) -> dict[str, str]:
    return {"information": text_of(version), "collection_name": "notes", "id": "x"}


def seen(server: RawServer) -> int | None:
    """Which version `qdrant-get` and after it `qdrant-find` show: a store may go on meanwhile."""
    got = server.call("qdrant-get", ids=["x"], collection_name="notes")
    found = server.call("qdrant-find", query="harbour crane lighthouse", limit=20)
    results = found["structuredContent"]["results"]
    texts = [one["text"] for one in results if "Version" in one["text"]]
    if got.get("isError"):
        assert texts == []
        return None
    (document,) = got["structuredContent"]["documents"]
    version = document["text"].split()[1]
    assert document["text"] == text_of(int(version))[: len(document["text"])]
    assert not any(
        "an update was interrupted" in note for note in got["structuredContent"]["notes"]
    )
    assert len(texts) == 1, found["structuredContent"]
    (passage,) = texts
    found_version = int(passage.split("Version ")[1].split()[0])
    assert found_version >= int(version)
    return found_version


def kill_pipe(server: RawServer, folder: Path) -> None:
    server.process.send_signal(signal.SIGKILL)


def kill_its_service(server: RawServer, folder: Path) -> None:
    kill_service(folder)


def cancel(server: RawServer, folder: Path) -> None:
    server.cancel()


@pytest.mark.parametrize("strike", [kill_pipe, kill_its_service, cancel])
def test_a_reader_never_sees_half_a_text(
    strike: Callable[[RawServer, Path], None], env, tmp_path, rounds
):
    env |= {"EMBEDDING_PROVIDER": "none"}  # its time is that of writing
    folder, chance = Path(env["QDRANT_LOCAL_PATH"]), random.Random(strike.__name__)
    server = RawServer(env, tmp_path)
    server.call("qdrant-store", information="A lamp.", collection_name="notes", id="lamp")
    begun = time.monotonic()
    server.call("qdrant-store", **store(0))
    seconds = time.monotonic() - begun
    assert seen(server) == 0

    versions = []
    for number in range(1, rounds + 1):
        server.send("tools/call", {"name": "qdrant-store", "arguments": store(number)})
        time.sleep(chance.uniform(0, seconds))  # the moment is what is tried, nothing is awaited
        strike(server, folder)
        if strike is kill_its_service:
            server.answer()
        elif strike is not cancel:
            server.kill()
            server = RawServer(env, tmp_path)
        now = seen(server)
        assert now is not None
        assert versions[-1:] <= [now] <= [number]
        versions.append(now)
    server.call("qdrant-store", **store(rounds + 1))

    assert seen(server) == rounds + 1
    assert server.close()[0] == 0
