"""Conversations of a coding client: stored, followed while it writes, kept when it deletes them."""

import json
import re
import time
from pathlib import Path

import pytest

from tests.e2e.raw import RawServer, run, text_of
from tests.made_secrets import KINDS, SECRETS
from tests.made_sessions import PROJECT, answered, asked, exchange, lines, written

pytestmark = pytest.mark.model(False)

HARMLESS = "kQ7vXz2LmB9tRw4Yp8sNc3Gd6HfJ1aEu5oTi0KbMxZl"  # of no known form: it stays
SECOND = "7d1c2b3a-0000-4000-8000-000000000002.jsonl"


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """A folder as Claude Code keeps it; nothing of a real one."""
    folder = tmp_path / "projects"
    written(folder, exchange(0, "Why does the pump stop?", "Its float is stuck."))
    return folder


def told(server: RawServer, sentence: str) -> None:
    """Wait until `qdrant-collections` says that."""
    until = time.monotonic() + 120
    while sentence not in (text := text_of(server.call("qdrant-collections"))):
        assert time.monotonic() < until, text
        time.sleep(0.01)


def found(server: RawServer, query: str) -> str:
    return json.dumps(server.call("qdrant-find", query=query, collections=["sessions"]))


def test_a_session_appears_is_followed_and_survives_its_deletion(env, tmp_path, projects):
    source = {"path": str(projects), "collection": "sessions", "name": "claude-code", "keep": True}
    settings = {"SYNC_SOURCES": json.dumps([source])}
    server = RawServer(env | settings, tmp_path)
    told(server, "in sync with claude-code, 1 file")
    first = server.call("qdrant-find", query="pump stops", collections=["sessions"], mode="full")
    file = next(projects.rglob("*.jsonl"))
    with file.open("ab") as session:
        session.write(lines(exchange(1, "How is it freed?", "With a wooden spoon.")))
    while "spoon" not in found(server, "how is the float freed"):
        time.sleep(0.01)
    file.unlink()
    written(projects, exchange(0, "Which lamp is broken?", "The red one."), SECOND)
    told(server, "in sync with claude-code, 2 files")
    kept = found(server, "how is the float freed")
    narrowed = server.call(
        "qdrant-find",
        query="pump",
        collections=["sessions"],
        query_filter={"must": [{"key": "metadata.project", "match": {"value": PROJECT}}]},
    )
    code, log = server.close()

    (hit,) = first["structuredContent"]["results"]
    assert hit["title"] == "Why does the pump stop? > 2026-11-20"
    assert {"client": "claude-code", "project": PROJECT, "branch": "main"}.items() <= hit[
        "metadata"
    ].items()
    assert "spoon" in kept
    assert "float" in text_of(narrowed)
    assert (code, log) == (0, "")


def test_no_secret_reaches_the_store_the_caches_or_the_log(env, tmp_path, projects):
    texts = [text for text, _ in KINDS.values()]
    rows = [asked(0, f"{HARMLESS} is the number.", cwd=PROJECT), answered(1, "I see.")]
    for n, text in enumerate(texts, 1):
        rows += [asked(4 * n, f"Question {n}:\n{text}"), answered(4 * n + 1, f"You said:\n{text}")]
    written(projects, rows, SECOND)
    cache = tmp_path / "cache"
    settings = env | {"QDRANT_CACHE_PATH": str(cache), "FASTMCP_LOG_LEVEL": "DEBUG"}
    done = run(settings, "ingest", projects, "--collection", "sessions")
    server = RawServer(settings, tmp_path)
    stored = text_of(server.call("qdrant-store", information="\n\n".join(texts)))
    answer = found(server, "Question You said")
    ids = ["projects/-home-ada-shed/" + SECOND]
    whole = text_of(server.call("qdrant-get", ids=ids, size=60_000))
    _, log = server.close()
    kept = b"".join(
        re.sub(rb"\0{9,}", b"\0", one.read_bytes())  # most of an engine's files is empty
        for folder in (tmp_path / "engine", cache)
        for one in folder.rglob("*")
        if one.is_file()
    )

    assert done.returncode == 0, done.stderr
    assert f"{2 * len(KINDS)} secrets masked in these texts.\n" in done.stdout
    assert f" Masked {len(KINDS)} secrets." in stored
    assert len(KINDS) >= 30
    assert HARMLESS.encode() in kept  # so a secret would be seen
    assert HARMLESS in whole
    assert whole.count("[masked]") >= 2 * len(KINDS)
    for secret in SECRETS:
        assert secret.encode() not in kept
        assert secret not in done.stdout + done.stderr + stored + answer + whole + log
