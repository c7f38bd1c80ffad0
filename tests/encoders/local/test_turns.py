"""Work in turns: fair to callers, for any event loop, and not ended by what hangs."""

import asyncio
import threading
from functools import partial

import pytest

from mcp_server_qdrant.core.context import serving_connection
from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.local import turns as module
from mcp_server_qdrant.encoders.local.turns import Turns

PATIENT = 60.0


@pytest.fixture
def gate():
    """What waits for it hangs until the test is over."""
    event = threading.Event()
    yield event
    event.set()


async def begun(turns: Turns, gate: threading.Event, seconds: float = PATIENT):
    """A task whose work has begun, and goes on until the gate opens."""
    started = threading.Event()

    def work() -> str:
        started.set()
        gate.wait(PATIENT)
        return "done"

    task = asyncio.create_task(turns.do(work, seconds))
    await asyncio.to_thread(started.wait, PATIENT)
    return task


async def test_work_of_one_caller_leaves_room_for_anothers(gate):
    turns, order = Turns(PATIENT), []
    first = await begun(turns, gate)
    asked = []
    for who, number in (("red", 1), ("red", 2), ("red", 3), ("blue", 9)):
        with serving_connection(who):
            asked.append(asyncio.create_task(turns.do(partial(order.append, number), PATIENT)))
    await asyncio.sleep(0)  # all of them stand in line
    gate.set()
    await asyncio.gather(first, *asked)

    assert order == [1, 9, 2, 3]


async def test_what_nobody_waits_for_any_more_is_not_begun(gate):
    turns, done = Turns(PATIENT), []
    first = await begun(turns, gate)
    with pytest.raises(TimeoutError):
        await turns.do(partial(done.append, 1), 0.01)
    gate.set()

    assert await first == "done"
    await turns.do(partial(done.append, 2), PATIENT)
    assert done == [2]


async def test_work_that_hangs_is_left_behind_and_the_rest_is_done(gate):
    turns = Turns(0.01)
    with pytest.raises(TimeoutError):
        await turns.do(partial(gate.wait, PATIENT), 0.02)

    assert turns.leave_hanging()
    assert await turns.do(partial(int, "7"), PATIENT) == 7
    assert not turns.leave_hanging()


async def test_who_comes_to_work_that_hangs_does_not_wait_for_it(gate):
    turns = Turns(0.01)
    with pytest.raises(TimeoutError):
        await turns.do(partial(gate.wait, PATIENT), 0.02)

    assert await turns.do(partial(int, "7"), PATIENT) == 7


async def test_work_that_a_caller_gave_up_early_does_not_hang(gate):
    turns = Turns(PATIENT)
    first = await begun(turns, gate)
    with pytest.raises(TimeoutError):
        await turns.do(int, 0.01)

    assert not turns.leave_hanging()
    gate.set()
    assert await first == "done"


def test_callers_may_be_in_event_loops_of_their_own():
    turns, found = Turns(PATIENT), []

    def ask(number: int) -> None:
        async def several() -> list[int]:
            return [await turns.do(partial(abs, -number), PATIENT) for _ in range(20)]

        found.append(set(asyncio.run(several())))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENT)

    assert sorted(map(min, found)) == [0, 1, 2, 3]
    assert all(len(one) == 1 for one in found)


async def test_a_fault_that_nobody_foresaw_is_told_and_the_next_work_is_done():
    turns = Turns(PATIENT)

    def broken() -> None:
        raise RuntimeError("/secret/path")

    with pytest.raises(
        EncoderUnavailable, match=r"^The model failed: an unexpected RuntimeError\.$"
    ):
        await turns.do(broken, PATIENT)
    assert await turns.do(partial(int, "7"), PATIENT) == 7


async def test_a_thread_that_has_nothing_to_do_ends_and_another_does_later_work(monkeypatch):
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    turns = Turns(PATIENT)
    first = await turns.do(threading.current_thread, PATIENT)
    await asyncio.to_thread(first.join, PATIENT)

    assert not first.is_alive()
    assert await turns.do(threading.current_thread, PATIENT) is not first
