"""Inside the embedded engine: reads go before writes, which are done one at a time, in turns."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.context import Caller, calling, serving_connection
from mcp_server_qdrant.core.errors import EngineTimeout
from mcp_server_qdrant.qdrant.edge import embedded, writes
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.embedded import Embedded
from tests.hosts import until
from tests.qdrant.edge.here import crashed, made


@pytest.fixture(autouse=True)
def pieces(monkeypatch):
    """Each point is a piece of its own."""
    monkeypatch.setattr(writes, "_BATCH", 1)


async def count(engine: Embedded) -> int:
    return (await EdgeClient(engine, 60).count("a")).count


def upsert(
    engine: Embedded, number: int, batches: int = 1, timeout: float = 60.0
) -> Coroutine[Any, Any, None]:
    points = [
        models.PointStruct(id=number * 1000 + n, vector={"d": [1.0, 2.0]}) for n in range(batches)
    ]
    return EdgeClient(engine, timeout).upsert("a", points)


@pytest.fixture
async def engine(tmp_path):
    """An engine with an empty collection."""
    engine = await Embedded.open(tmp_path / "live")
    await EdgeClient(engine, 60).create_described("a", made())
    yield engine
    await engine.close()


async def finished(calls: dict[Any, Coroutine[Any, Any, Any]]) -> list[Any]:
    """The names of calls that begin together, in the order in which they end."""
    order = []

    async def done(name: Any, call: Coroutine[Any, Any, Any]) -> None:
        await call
        order.append(name)

    await asyncio.gather(*(done(name, call) for name, call in calls.items()))
    return order


async def by(who: str, call: Coroutine[Any, Any, Any]) -> Any:
    with calling(Caller(who, frozenset())):
        return await call


async def over(line: int, call: Coroutine[Any, Any, Any]) -> Any:
    with serving_connection(line):
        return await call


async def test_what_the_log_alone_has_is_soon_in_the_other_files(tmp_path, monkeypatch, engine):
    monkeypatch.setattr(embedded, "_FLUSH_SECONDS", 0.01)
    live = await Embedded.open(tmp_path / "soon")
    await EdgeClient(live, 60).create_described("a", made())
    await upsert(live, 1, batches=20)
    ids = "spaces/*/g-*/segments/*/mutable_id_tracker.mappings"
    async with asyncio.timeout(20):
        while not any(path.stat().st_size for path in (tmp_path / "soon").glob(ids)):
            await asyncio.sleep(0.01)
    left = crashed(tmp_path / "soon", tmp_path / "left")
    await live.close()
    for log in left.glob("spaces/*/g-*/wal/*"):
        log.unlink()
    copy = await Embedded.open(left)

    assert await count(copy) == 20
    await copy.close()


async def test_upkeep_goes_on_after_the_folder_was_away_for_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "_FLUSH_SECONDS", 0.01)
    engine = await Embedded.open(tmp_path / "live")
    await EdgeClient(engine, 60).create_described("a", made())
    await upsert(engine, 1)
    unwanted, checked = tmp_path / "live" / "unwanted", asyncio.Event()
    listed = engine.store.unwanted

    def seen():
        checked.set()
        return listed()

    unwanted.rename(tmp_path / "away")
    monkeypatch.setattr(engine.store, "unwanted", seen)
    await checked.wait()
    (tmp_path / "away").rename(unwanted)
    await EdgeClient(engine, 60).delete_collection("a")
    await until(lambda: not list(unwanted.iterdir()))
    await engine.close()


async def test_what_waits_is_written_before_the_engine_is_closed(engine, tmp_path):
    writes = [asyncio.create_task(upsert(engine, number)) for number in range(70)]
    await asyncio.sleep(0)
    await engine.close()
    await asyncio.gather(*writes)

    again = await Embedded.open(tmp_path / "live")
    assert await count(again) == 70
    await again.close()


@pytest.mark.parametrize("turns", [by, over])
async def test_writes_of_several_callers_take_turns_and_those_of_one_keep_their_order(
    engine, turns
):
    one, other = ("red", "blue") if turns is by else (1, 2)
    calls = {number: turns(one, upsert(engine, number)) for number in range(20)}
    calls |= {number: turns(other, upsert(engine, number)) for number in (50, 51)}
    order = await finished(calls)

    assert set(order[:4]) == {0, 1, 50, 51}
    assert [number for number in order if number < 50] == list(range(20))


async def test_reads_are_answered_between_the_pieces_of_a_write(engine):
    reads = {number: count(engine) for number in range(2, 5)}

    assert await finished({1: upsert(engine, 1, batches=50), **reads}) == [2, 3, 4, 1]


async def test_a_write_that_is_late_when_its_turn_comes_is_not_done(engine):
    first = asyncio.create_task(upsert(engine, 1, batches=50))
    await asyncio.sleep(0)

    with pytest.raises(EngineTimeout):
        await upsert(engine, 2, timeout=1e-6)
    await first
    await upsert(engine, 3)  # it comes after the late one
    assert await count(engine) == 51


async def test_a_write_goes_on_though_its_caller_gives_up(engine, tmp_path):
    for batches in (40, 5):  # the second one has not begun yet
        write = asyncio.create_task(upsert(engine, batches, batches=batches))
        await asyncio.sleep(0)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
    await engine.close()

    again = await Embedded.open(tmp_path / "live")
    assert await count(again) == 45
    await again.close()


async def test_the_event_loop_goes_on_between_reads_that_follow_each_other(engine):
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    for _ in range(50):
        await count(engine)
    ticking.cancel()

    assert ticks >= 50
