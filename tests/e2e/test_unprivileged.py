"""What a process meets that may not read or write everything, as the tests' root may."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.raw import RawServer, clean_environment, text_of

SETPRIV = shutil.which("setpriv")
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
# Without capabilities the permissions of files bind root too.
PREFIX = [SETPRIV, "--bounding-set=-all"] if ROOT and SETPRIV else []
COMMAND = [*PREFIX, sys.executable, "-P", "-m", "mcp_server_qdrant"]

pytestmark = [
    pytest.mark.model(False),
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions"),
    pytest.mark.skipif(ROOT and not SETPRIV, reason="root needs setpriv of util-linux"),
]


def run(env: dict[str, str], *arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=clean_environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def served(env: dict[str, str], cwd: Path) -> RawServer:
    return RawServer(
        env, cwd, popen=lambda command, **how: subprocess.Popen([*PREFIX, *command], **how)
    )


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder that may be read, but not written to."""
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    yield folder
    folder.chmod(0o700)


def test_files_that_became_unreadable_are_named_and_their_texts_stay(env, tmp_path):
    notes = tmp_path / "notes"
    (notes / "winter").mkdir(parents=True)
    for name, text in (("boat.md", "The boat is blue."), ("winter/cover.md", "It is green.")):
        (notes / name).write_text(text)
    assert run(env, "ingest", notes, "--collection", "notes").returncode == 0
    (notes / "boat.md").write_text("The boat is red.")
    for name in ("boat.md", "winter"):
        (notes / name).chmod(0)
    done = run(env, "sync", notes, "--collection", "notes")
    server = served(env, tmp_path)
    found = server.call("qdrant-find", query="boat blue green", collections=["notes"])
    server.close()
    (notes / "winter").chmod(0o700)

    assert done.returncode == 0
    assert "0 new, 0 changed, 0 removed, 0 unchanged, 2 not read" in done.stdout
    for name in ("boat.md cannot be read", "winter/ cannot be opened"):
        assert f"notes/{name}: Permission denied (its stored text is kept)" in done.stdout
    texts = {one["text"] for one in found["structuredContent"]["results"]}
    assert texts == {"The boat is blue.", "It is green."}


def test_a_store_that_cannot_be_written_ends_the_server_with_a_sentence(env, closed):
    env = env | {"QDRANT_LOCAL_PATH": str(closed / "engine")}
    served, doctor = run(env), run(env, "doctor")

    advice = "Set QDRANT_LOCAL_PATH to a folder that you may write to.\n"
    assert (served.returncode, served.stdout) == (1, "")
    assert served.stderr.endswith(f"Permission denied in its folder. {advice}")
    assert doctor.returncode != 0
    assert advice in doctor.stdout


@pytest.mark.model(True)
def test_a_cache_that_cannot_be_written_is_done_without(env, tmp_path, closed):
    server = served(env | {"QDRANT_CACHE_PATH": str(closed / "cache")}, tmp_path)
    stored = server.call("qdrant-store", information="The boat is blue.")
    found = server.call("qdrant-find", query="what colour is the vessel")

    assert text_of(stored).startswith("Remembered")
    assert [one["text"] for one in found["structuredContent"]["results"]] == ["The boat is blue."]
    assert server.close()[0] == 0


@pytest.mark.parametrize("command", ["export", "backup"])
def test_a_copy_into_a_folder_that_cannot_be_written_says_so(env, tmp_path, closed, command):
    server = served(env, tmp_path)
    server.call("qdrant-store", information="The boat is blue.", collection_name="notes")
    server.close()
    names = ("notes", closed / "out") if command == "export" else (closed / "out",)
    done = run(env, command, *names)

    assert done.returncode == 2
    assert done.stderr == (
        f"mcp-server-qdrant: {closed / 'out'} cannot be created: Permission denied.\n"
    )
    assert list(closed.iterdir()) == []
