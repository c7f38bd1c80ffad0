"""A server that keeps a folder in step."""

import json
import time
from pathlib import Path

import pytest

from tests.e2e.raw import RawServer, text_of

pytestmark = pytest.mark.model(False)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "key.md").write_text("# Key\n\nThe key is under the flower pot.\n")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\0")
    return folder


def told(server: RawServer, sentence: str) -> str:
    """What `qdrant-collections` says, once it says that."""
    for _ in range(10_000):
        text = text_of(server.call("qdrant-collections"))
        if sentence in text:
            return text
        time.sleep(0.01)
    raise AssertionError(text)


@pytest.mark.model(True)
def test_a_folder_is_in_step_while_the_server_runs(env, tmp_path, notes):
    sources = json.dumps({str(notes): "things"})
    server = RawServer(env | {"SYNC_SOURCES": sources}, tmp_path)
    told(server, "in step with notes, 1 file, 1 not read: notes/photo.jpg is binary")
    first = server.call("qdrant-find", query="where is the key", collections=["things"])
    (notes / "key.md").write_text("# Key\n\nThe key is in the shed now.\n")
    while "shed" not in json.dumps(server.call("qdrant-find", query="key", collections=["things"])):
        time.sleep(0.01)
    (notes / "lamp.md").write_text("# Lamp\n\nThe lamp is in the attic.\n")
    status = told(server, "in step with notes, 2 files")
    code, log = server.close()

    assert first["structuredContent"]["results"][0]["title"] == "Key"
    assert status.startswith("- things: 2 points, dense + bm25")
    assert (code, log) == (0, "")


def test_a_server_that_only_reads_keeps_nothing_in_step(env, tmp_path, notes):
    sources = json.dumps({str(notes): "things"})
    server = RawServer(env | {"SYNC_SOURCES": sources, "QDRANT_READ_ONLY": "true"}, tmp_path)
    text = text_of(server.call("qdrant-collections"))
    server.close()

    assert text == "There is no collection yet."
