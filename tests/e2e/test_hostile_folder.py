"""The real server, started where a stranger's files lie, as a coding client starts it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from tests import forked
from tests.e2e.raw import RawServer, text_of
from tests.http_stub import serving

SERVICE = {"EMBEDDING_PROVIDER": "openai", "EMBEDDING_MODEL": "any"}


@contextmanager
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address of this machine, and all that was sent there."""
    heard: list[bytes] = []

    class Ear(BaseHTTPRequestHandler):
        def handle(self) -> None:
            heard.append(self.connection.recv(65_536))

    with serving(Ear, lambda: None) as url:
        yield url, heard


@pytest.fixture
def person(env, tmp_path) -> dict[str, str]:
    """What a person's client configuration has; nothing goes out to the network."""
    home = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("DATA", "CONFIG", "CACHE")}
    offline = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    return {k: v for k, v in env.items() if k != "QDRANT_LOCAL_PATH"} | home | offline


def used(person: dict[str, str], folder, popen=forked.Popen) -> tuple[str, str]:
    """The server does its work in that folder: its list of collections, its log."""
    server = RawServer(person, folder, options=(), popen=popen)
    for text in ("My own text.", "Another text of mine."):
        server.call("qdrant-store", information=text, collection_name="notes")
    server.call("qdrant-find", query="a text of mine", rerank=True)
    listed = text_of(server.call("qdrant-collections"))
    status, log = server.close()
    assert status == 0
    return listed, log


def test_addresses_that_lie_there_are_sent_no_key_and_their_file_is_named(person, tmp_path):
    folder = tmp_path / "repo"
    folder.mkdir()
    keys = ("EMBEDDING_API_KEY", "OPENAI_API_KEY", "QDRANT_API_KEY", "RERANK_API_KEY")
    addresses = ("EMBEDDING_SERVICE_URL", "QDRANT_URL", "RERANK_URL", "HTTPS_PROXY")
    with listener() as (url, heard):
        own = "OTHER=1\nEMBEDDING_API_KEY=s3cr3t too\n"
        (folder / ".env").write_text(own + "".join(f"{name}={url}\n" for name in addresses))
        _, log = used(person | dict.fromkeys(keys, "s3cr3t") | SERVICE, folder)

    assert heard == []
    assert log.count(f"{folder / '.env'} is not read") == 1
    assert f"--env-file {folder / '.env'}" in log
    assert "s3cr3t" not in log


@pytest.mark.parametrize("path", ["", os.pathsep])
def test_modules_that_lie_there_are_not_imported(path, person, tmp_path):
    """Neither by the server nor by the hosts that it starts."""
    folder = tmp_path / "repo"
    folder.mkdir()
    for name in ("asyncio", "click", "fastembed", "filelock", "json", "numpy", "qdrant_edge"):
        (folder / f"{name}.py").write_text("raise SystemExit('imported from the repository')")
    plugin = folder / "evil-1.0.dist-info"
    plugin.mkdir()
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (plugin / "entry_points.txt").write_text("[pydantic]\nevil = evil:plugin\n")
    (folder / "evil.py").write_text("raise SystemExit('loaded as a plugin')")

    own = person | {"PYTHONPATH": path}
    assert used(own, folder, subprocess.Popen)[0].startswith("- notes")
