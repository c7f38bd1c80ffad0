"""Inside the engine host: reads go before writes, which are done one at a time."""

import asyncio
import math
import shutil
from typing import Any

import pytest

from mcp_server_qdrant.core.errors import EngineTimeout
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.qdrant.edge import host
from mcp_server_qdrant.qdrant.edge.host import Engine
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from tests.hosting.test_host import Somebody

MADE = {"vectors": {"d": {"size": 2, "distance": "Dot"}}, "sparse_vectors": {}}


def call(number: int, operation: str, *arguments: Any, caller: str = "", until: float = math.inf):
    return wire.Call(number, operation, arguments, until, caller, operation != "count")


def upsert(number: int, blobs: int = 1, **who: Any) -> wire.Call:
    points = [wire.pack([(number * 1000 + n, {"d": [1.0, 2.0]}, {})]) for n in range(blobs)]
    return call(number, "upsert", "a", points, **who)


@pytest.fixture
async def engine(tmp_path):
    """An engine with an empty collection."""
    engine = Engine(tmp_path, EdgeOptions(min_free=0))
    await engine.do(None, call(0, "create", "a", MADE))
    yield engine
    await engine.end()


async def finished(engine: Engine, *calls: wire.Call) -> list[tuple[int, Any]]:
    somebody = Somebody()
    for one in calls:
        engine.take(somebody, one)
    await engine.end()
    return somebody.replies


async def test_what_the_log_alone_has_is_soon_in_the_other_files(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "_FLUSH_SECONDS", 0.01)
    engine = Engine(tmp_path / "live", EdgeOptions(min_free=0))
    await engine.do(None, call(0, "create", "a", MADE))
    await engine.do(None, upsert(1, blobs=20))
    ids = "spaces/*/g-*/segments/*/mutable_id_tracker.mappings"
    async with asyncio.timeout(20):
        while not any(path.stat().st_size for path in (tmp_path / "live").glob(ids)):
            await asyncio.sleep(0.01)
    shutil.copytree(tmp_path / "live", tmp_path / "copy")
    await engine.end()
    for log in (tmp_path / "copy").glob("spaces/*/g-*/wal"):
        shutil.rmtree(log)
    copy = Engine(tmp_path / "copy", EdgeOptions(min_free=0))

    assert await copy.do(None, call(1, "count", "a", {})) == {"count": 20}
    await copy.end()


async def test_what_waits_is_written_before_the_host_ends(engine):
    replies = await finished(engine, *(upsert(number) for number in range(70)))

    assert replies == [(number, None) for number in range(70)]
    assert await engine.do(None, call(1, "count", "a", {})) == {"count": 70}


async def test_writes_of_several_callers_take_turns_and_those_of_one_keep_their_order(engine):
    calls = [upsert(number, caller="red") for number in range(20)]
    replies = await finished(engine, *calls, upsert(50, caller="blue"), upsert(51, caller="blue"))
    order = [number for number, *_ in replies]

    assert set(order[:4]) == {0, 1, 50, 51}
    assert [number for number in order if number < 50] == list(range(20))


async def test_reads_are_answered_between_the_pieces_of_a_write(engine):
    reads = [call(number, "count", "a", {}) for number in range(2, 5)]
    replies = await finished(engine, upsert(1, blobs=50), *reads)

    assert [number for number, *_ in replies] == [2, 3, 4, 1]


async def test_a_write_that_is_late_when_its_turn_comes_is_not_done(engine):
    loop = asyncio.get_running_loop()
    first = asyncio.ensure_future(engine.do(None, upsert(1, blobs=50)))
    await asyncio.sleep(0)

    with pytest.raises(EngineTimeout):
        await engine.do(None, upsert(2, until=loop.time() - 1))
    await first
    assert await engine.do(None, call(3, "count", "a", {})) == {"count": 50}
