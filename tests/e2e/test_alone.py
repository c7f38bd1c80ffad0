"""A server that is one process with its client's: where none may be left behind, or none can."""

import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.raw import RawServer, end_service, run, service_pid, text_of

pytestmark = pytest.mark.model(False)

ALONE = {"QDRANT_SHARE_PROCESS": "false"}
IN_USE = "in use by another process"


def stored(server: RawServer, text: str) -> dict:
    return server.call("qdrant-store", information=text, collection_name="notes")


def texts(server: RawServer) -> set[str]:
    found = server.call("qdrant-find", query="blue", collections=["notes"])
    assert not found.get("isError"), text_of(found)
    return {one["text"] for one in found["structuredContent"]["results"]}


def test_it_serves_its_client_in_the_process_itself_and_leaves_none_behind(env, tmp_path):
    server = RawServer(env | ALONE, tmp_path)
    assert not stored(server, "The boat is blue.").get("isError")
    assert texts(server) == {"The boat is blue."}
    assert service_pid(tmp_path / "engine") is None
    assert server.close() == (0, "")

    again = RawServer(env | ALONE, tmp_path)
    assert texts(again) == {"The boat is blue."}
    again.process.send_signal(signal.SIGTERM)
    again.process.wait(timeout=30)
    assert again.close() == (0, "")


def test_a_second_client_is_told_in_a_sentence_and_served_once_the_first_has_gone(env, tmp_path):
    first = RawServer(env | ALONE, tmp_path)
    assert not stored(first, "The boat is blue.").get("isError")
    second = RawServer(env | ALONE, tmp_path)
    refused = second.call("qdrant-find", query="blue")
    first.close()

    assert refused["isError"]
    assert IN_USE in text_of(refused)
    assert texts(second) == {"The boat is blue."}
    assert second.close()[0] == 0


@pytest.fixture
def full_disk():
    """What is started meanwhile can write no byte into a file, as on a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def start(env: dict[str, str], cwd: Path) -> RawServer:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            return RawServer(env, cwd, popen=subprocess.Popen)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return start


def test_on_a_full_disk_nothing_starts_and_a_sentence_says_why(env, tmp_path, small_disk):
    env = env | {"QDRANT_LOCAL_PATH": str(small_disk / "engine")}
    before = RawServer(env | ALONE, tmp_path)
    stored(before, "The boat is blue.")
    before.close()
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    done = run(env, cwd=tmp_path)  # a server whose input ends at once
    ballast.unlink()
    after = RawServer(env, tmp_path)
    found = texts(after)
    after.close()
    end_service(small_disk / "engine")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "mcp-server-qdrant: The service could not be started: the disk is full.\n"
    )
    assert found == {"The boat is blue."}


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
@pytest.mark.model(True)
def test_a_full_disk_does_not_keep_the_trial_engine_from_finding_by_meaning(
    env, tmp_path, full_disk
):
    del env["QDRANT_LOCAL_PATH"]
    server = full_disk(env | {"QDRANT_URL": ":memory:"}, tmp_path)
    said = stored(server, "The vessel is azure.")
    found = server.call("qdrant-find", query="blue boat", collections=["notes"])

    assert "keywords only" not in text_of(said)
    assert "collections" not in found["structuredContent"]
    assert found["structuredContent"]["results"][0]["relevance"] > 0.1
    assert server.close() == (0, "")
