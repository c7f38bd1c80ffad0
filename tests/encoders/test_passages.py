"""The vectors of passages on disk."""

import asyncio
import contextlib
import sqlite3
import stat
import subprocess
import sys
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_server_qdrant.core.cachefile import digest
from mcp_server_qdrant.encoders.passages import FILE, PassageCache
from tests.support import Clock


def vector(number: float, size: int = 384) -> list[float]:
    return array("f", [number / (place + 3) for place in range(size)]).tolist()


@asynccontextmanager
async def opened(folder: Path, megabytes: int = 10, **options) -> AsyncIterator[PassageCache]:
    cache = PassageCache(folder, megabytes, **options)
    try:
        yield cache
    finally:
        await cache.close()


async def test_what_was_put_comes_back_to_the_last_bit_in_another_run(tmp_path):
    async with opened(tmp_path) as cache:
        await cache.put("m", {"a": vector(1), "b": vector(2)})
    async with opened(tmp_path) as cache:
        assert await cache.get("m", ["b", "x", "a", "b"]) == [vector(2), None, vector(1), vector(2)]


async def test_models_do_not_share_vectors(tmp_path):
    async with opened(tmp_path) as cache:
        await cache.put("one", {"a": vector(1)})
        assert await cache.get("other", ["a"]) == [None]
    assert digest("m", "ab") != digest("ma", "b")


async def test_more_texts_than_sqlite_takes_at_once(tmp_path):
    given = {f"text {n}": vector(n, 4) for n in range(1300)}
    async with opened(tmp_path) as cache:
        await cache.put("m", given)
        assert await cache.get("m", list(given)) == list(given.values())


async def test_no_text_is_in_the_file_and_others_cannot_read_it(tmp_path):
    folder = tmp_path / "new" / "cache"
    async with opened(folder) as cache:
        await cache.put("m", {"a very private sentence": vector(1)})
        for file in folder.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert b"private" not in file.read_bytes()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_it_stays_within_its_size_and_loses_what_was_not_used_for_longest(tmp_path):
    clock = Clock()
    async with opened(tmp_path, 1, clock=clock) as cache:
        await cache.put("m", {"kept": vector(0)})
        for round_ in range(30):
            clock.now += 90_000
            assert await cache.get("m", ["kept"]) == [vector(0)]
            await cache.put("m", {f"{round_} {n}": vector(n) for n in range(50)})
        assert await cache.get("m", ["0 0", "29 0"]) == [None, vector(0)]
    assert (
        sum(file.stat().st_size for file in tmp_path.iterdir()) < 6_000_000
    )  # a journal is part of it


async def test_one_lot_beyond_the_size_is_no_harm(tmp_path):
    async with opened(tmp_path, 1) as cache:
        await cache.put("m", {str(n): vector(n) for n in range(2000)})
        await cache.put("m", {"a": vector(1, 4)})
        assert await cache.get("m", ["a"]) == [vector(1, 4)]


@pytest.mark.parametrize("damage", [b"", b"not a database" * 500, None])
async def test_a_damaged_or_lost_file_costs_its_vectors_only(tmp_path, damage):
    async with opened(tmp_path) as cache:
        await cache.put("m", {"a": vector(1)})
    for file in tmp_path.iterdir():
        file.unlink()
    if damage is not None:
        (tmp_path / FILE).write_bytes(damage)
    async with opened(tmp_path) as cache:
        assert await cache.get("m", ["a"]) == [None]
        await cache.put("m", {"a": vector(1)})
        assert await cache.get("m", ["a"]) == [vector(1)]


async def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("x")
    async with opened(tmp_path / "file" / "below") as cache:
        await cache.put("m", {"a": vector(1)})
        assert await cache.get("m", ["a"]) == [None]


async def test_while_another_process_writes_nothing_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr("mcp_server_qdrant.core.cachefile.BUSY_SECONDS", 0.01)
    async with opened(tmp_path) as cache:
        await cache.put("m", {"a": vector(1)})
        with contextlib.closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await cache.put("m", {"b": vector(2)})
            assert await cache.get("m", ["a"]) == [vector(1)]
            other.execute("ROLLBACK")
        assert await cache.get("m", ["b"]) == [None]


async def test_processes_share_it(tmp_path):
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from mcp_server_qdrant.encoders.passages import PassageCache\n"
        "async def run(who):\n"
        "    cache = PassageCache(Path(sys.argv[1]), 10)\n"
        "    for n in range(40):\n"
        "        await cache.put('m', {f'{who} {n} {k}': [1.0 * n, 2.0 * k] for k in range(5)})\n"
        "    await cache.close()\n"
        "asyncio.run(run(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    running = [subprocess.Popen([*command, who]) for who in "abc"]
    assert [await asyncio.to_thread(process.wait) for process in running] == [0, 0, 0]

    asked = [f"{who} {n} {k}" for who in "abc" for n in range(40) for k in range(5)]
    async with opened(tmp_path) as cache:
        found = await cache.get("m", asked)
    assert found == [[1.0 * n, 2.0 * k] for _ in "abc" for n in range(40) for k in range(5)]
