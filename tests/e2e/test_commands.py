"""Commands while a server of the same folder runs: its service does their work."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests import forked
from tests.e2e import raw
from tests.e2e.raw import COMMAND, RawServer, clean_environment, service_pid, serving, text_of

pytestmark = pytest.mark.model(False)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["stdio", "streamable-http"])
def client(request, env, tmp_path) -> Iterator[RawServer]:
    """A client over stdio, of a service in the background or of a server over HTTP."""
    with ExitStack() as stack:
        if request.param != "stdio":
            stack.enter_context(serving(env, request.param, tmp_path))
        server = RawServer(env, tmp_path)
        yield server
        assert server.close() == (0, "")


@pytest.fixture
def run(env, tmp_path) -> Run:
    return lambda *words, **more: raw.run(env | more, *words, cwd=tmp_path)


def test_what_is_ingested_is_found_at_once_and_its_versions_are_listed(client, run, env, tmp_path):
    pid = service_pid(Path(env["QDRANT_LOCAL_PATH"]))
    client.call("qdrant-store", information="The key is here.", id="key", collection_name="house")
    client.call("qdrant-store", information="The key is gone.", id="key", collection_name="house")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "lamp.md").write_text("# Lamp\n\nThe lamp is in the attic.\n")
    done = run("ingest", "notes", "--collection", "things")
    found = client.call("qdrant-find", query="lamp", collections=["things"])
    history = run("history")
    narrow = run("describe", "house", "Keys", QDRANT_READ_ONLY="true")
    wrong = run("ingest", "nowhere", "--collection", "things")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("things: 1 new, 0 changed, 0 removed, 0 unchanged")
    assert "The lamp is in the attic." in text_of(found)
    assert history.returncode == 0
    assert "key" in history.stdout
    assert narrow.returncode == 2
    assert wrong.returncode == 2
    assert service_pid(Path(env["QDRANT_LOCAL_PATH"])) == pid


def test_a_backup_is_restored_and_doctor_is_content(client, run, tmp_path):
    client.call("qdrant-store", information="The key is here.", id="key", collection_name="house")
    backup = run("backup", "kept")
    client.call("qdrant-delete", ids=["key"], collection_name="house")
    restored = run("restore", "kept", "--overwrite")
    (got,) = client.call("qdrant-get", ids=["key"])["structuredContent"]["documents"]
    doctor = run("doctor")

    assert (backup.returncode, restored.returncode) == (0, 0), backup.stderr + restored.stderr
    assert (tmp_path / "kept").is_dir()
    assert got["text"] == "The key is here."
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert "house" in doctor.stdout


def test_the_page_is_shown_beside_a_client(env, tmp_path):
    client = RawServer(env, tmp_path)
    client.call("qdrant-store", information="The key is here.", collection_name="house")
    page = forked.Popen(
        [*COMMAND, "viz"],
        env=clean_environment(env),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = page.stdout.readline().strip()
        shown = httpx.get(address, follow_redirects=True, timeout=60)
        during = client.call("qdrant-find", query="key")
    finally:
        page.terminate()
        page.wait(timeout=60)
        page.stdout.close()
    after = client.call("qdrant-store", information="The key is gone.", collection_name="house")

    assert shown.status_code == 200
    assert "The key is here." in text_of(during)
    assert not after.get("isError"), text_of(after)
    assert client.close() == (0, "")
