"""A server that keeps a folder in sync."""

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


def test_a_server_that_only_reads_keeps_nothing_in_step(env, tmp_path, notes):
    sources = json.dumps({str(notes): "things"})
    server = RawServer(env | {"SYNC_SOURCES": sources, "QDRANT_READ_ONLY": "true"}, tmp_path)
    text = text_of(server.call("qdrant-collections"))
    server.close()

    assert text == "There is no collection yet."
