"""Importing, upgrading and copying with real processes, which are killed in the middle."""

import asyncio
import json
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests import forked
from tests.e2e.raw import COMMAND, RawServer, clean_environment, ended, kill_service
from tests.local_mode import files, leave
from tests.support import corpus

MANY = corpus(400)
ROUNDS = 3


@pytest.fixture(scope="module")
def official(tmp_path_factory) -> Path:
    """A folder that local mode wrote, of 400 points."""
    folder = tmp_path_factory.mktemp("official")
    asyncio.run(leave(folder, texts=MANY, vector="fast-all-minilm-l6-v2", size=384))
    return folder


def command(env: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    return forked.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(env),
        text=True,
        encoding="utf-8",
    )


def run(env: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    process = command(env, *arguments)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def kill_at_line(process: "subprocess.Popen[str]", line: int) -> None:
    """Kill the command after so many lines; it may be done before that."""
    for _ in range(line):
        if not process.stderr.readline():
            break
    process.kill()
    process.communicate()


async def alone(folder: Path) -> EdgeClient:
    """The engine of a folder in this process, its service at an end."""
    with ended(folder):
        pass
    return await EdgeClient.open(folder)


def points(folder: Path, name: str = "notes") -> dict[Any, Any]:
    """All points of the embedded engine's collection."""

    async def read() -> dict[Any, Any]:
        client = await alone(folder)
        records, _ = await client.scroll(name, limit=10_000, with_payload=True, with_vectors=True)
        await client.close()
        return {record.id: record for record in records}

    return asyncio.run(read())


def complete(folder: Path, *, keywords: bool) -> None:
    """The collection in the folder is all of the official one's."""
    found = points(folder)
    assert sorted(found) == list(range(1, len(MANY) + 1))
    for point, record in found.items():
        assert record.payload["document"] == MANY[point - 1]
        assert ("bm25" in record.vector) == keywords


@contextmanager
def beside(env: dict[str, str], cwd: Path, round_: int) -> Iterator[None]:
    """In two rounds of three a client is there, whose service runs the commands."""
    server = RawServer(env, cwd) if round_ % 3 else None
    yield
    if server:
        server.kill()


def strike(process: "subprocess.Popen[str]", folder: Path, seconds: float, round_: int) -> int:
    """Kill the process, the service of the folder, or both, at a random moment; its status."""
    threading.Event().wait(random.uniform(0, seconds))
    if round_ % 3 != 0:
        kill_service(folder)
    if round_ % 3 != 1:
        process.kill()
    process.communicate(timeout=120)
    return process.returncode


def timed(env: dict[str, str], *arguments: str) -> float:
    """How long a command takes that nobody disturbs, and a little more."""
    began = time.monotonic()
    code, _, err = run(env, *arguments)
    assert code == 0, err
    return (time.monotonic() - began) * 1.2


def test_a_folder_of_the_official_server_is_imported_whole_whenever_it_is_killed(
    env, tmp_path, official, rounds
):
    def its(name: str) -> tuple[Path, dict[str, str]]:
        folder = tmp_path / name
        subprocess.run(["cp", "-r", str(official), str(folder)], check=True)
        return folder, env | {"QDRANT_LOCAL_PATH": str(folder)}

    before = files(official)
    seconds = timed(its("whole")[1], "upgrade", "notes")
    for round_ in range(rounds):
        folder, own = its(str(round_))
        with beside(own, tmp_path, round_):
            strike(command(own, "upgrade", "notes"), folder, seconds, round_)

        server = RawServer(own, tmp_path)
        listed = server.call("qdrant-collections")["structuredContent"]["collections"]
        server.close()

        assert [(one["name"], one["points"], one["legs"][-1]) for one in listed] == [
            ("notes", len(MANY), "bm25")
        ]
        assert listed[0]["note"].startswith("400 points imported from local mode on ")
        assert json.loads((folder / "imported.json").read_text()) == {"notes": "done"}
        assert files(folder) == before
        complete(folder, keywords=True)
        shutil.rmtree(folder, ignore_errors=True)  # it may be optimised yet


def test_an_upgrade_is_completed_however_often_it_is_killed_and_no_search_fails(
    env, tmp_path, official
):
    folder = Path(env["QDRANT_LOCAL_PATH"])
    assert run(env, "copy", "notes", "--from", str(official))[0] == 0
    server = RawServer(env, tmp_path)
    expected = search(server)
    answers: list[Any] = []
    done = threading.Event()

    def keep_searching() -> None:
        while not done.wait(0.03):
            answers.append(search(server))

    searching = threading.Thread(target=keep_searching)
    searching.start()
    try:
        for line in range(1, ROUNDS + 1):
            kill_at_line(command(env, "upgrade", "notes"), line)
        code, out, err = run(env, "upgrade", "notes")
    finally:
        done.set()
        searching.join()
    server.close()

    assert (code, err.count("Traceback")) == (0, 0)
    # If this process is slow to read a line, the last kill may come after the last point.
    assert out.endswith((" points.\n", ": all points already have BM25 vectors.\n"))
    assert len(answers) > ROUNDS
    assert [answer for answer in answers if answer["failed"]] == []
    assert answers[0]["ids"] == expected["ids"]
    complete(folder, keywords=True)
    fresh = RawServer(env, tmp_path)
    listed = fresh.call("qdrant-collections")["structuredContent"]["collections"]
    fresh.close()
    assert listed[0]["legs"] == ["dense", "bm25"]


def search(server: RawServer) -> dict[str, Any]:
    """The ids found, and whether the search failed in any way."""
    result = server.call("qdrant-find", query=MANY[132], collections=["notes"], explain=True)
    found = result.get("structuredContent") or {}
    states = found.get("collections", {})
    failed = bool(result.get("isError")) or any(
        state.startswith(("failed", "timeout")) for state in states.values()
    )
    return {"ids": [one["id"] for one in found.get("results", [])], "failed": failed}
