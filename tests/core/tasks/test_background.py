"""Background tasks that outlive their faults."""

import asyncio
import logging

import pytest

from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.core.tasks import FIRST_PAUSE, LONGEST_PAUSE, Tasks, gather
from tests.support import Clock


class Work:
    """Some work that ends as often as told, in these ways, and then well."""

    def __init__(self, *faults: BaseException) -> None:
        self.faults = list(faults)

    async def __call__(self) -> str:
        if self.faults:
            raise self.faults.pop(0)
        return "done"


class Pauses:
    """Notes how long is slept, and lets others look at the tasks meanwhile."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.seen: list[dict[str, str]] = []
        self.tasks = Tasks(sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seen.append(dict(self.tasks.faults))


async def test_what_dies_is_logged_told_of_and_begun_anew(caplog):
    pauses, told = Pauses(), []
    work = Work(OverflowError("of a date"), EngineUnavailable("Qdrant is away."))
    with caplog.at_level(logging.ERROR):
        done = await pauses.tasks.start("The count", work, told.append)

    first = "The count stopped: an unexpected OverflowError; it starts again in 1 s"
    second = "The count stopped: Qdrant is away; it starts again in 2 s"
    assert done == "done"
    assert told == [first, second]
    assert pauses.seen == [{"The count": first}, {"The count": second}]
    assert pauses.tasks.faults == {}
    assert [record.getMessage() for record in caplog.records] == [f"{first}.", f"{second}."]
    assert "of a date" in caplog.text


async def test_the_pause_grows_to_a_bound():
    pauses = Pauses()
    await pauses.tasks.start("The count", Work(*[ValueError()] * 12))

    assert pauses.slept[:4] == [FIRST_PAUSE, 2, 4, 8]
    assert pauses.slept[-1] == LONGEST_PAUSE
    assert pauses.slept == sorted(pauses.slept)


async def test_after_a_long_good_time_the_pause_is_short_again():
    pauses, clock = Pauses(), Clock()
    pauses.tasks._clock = clock
    seconds = [0, 0, LONGEST_PAUSE + 1, 0]

    async def work() -> None:
        if seconds:
            clock.now += seconds.pop(0)
            raise ValueError

    await pauses.tasks.start("The count", work)

    assert pauses.slept == [1, 2, 1, 2]


async def test_closing_ends_them_all():
    tasks = Tasks()
    one, other = (tasks.start(name, asyncio.Event().wait) for name in ("one", "other"))
    dying = tasks.start("dying", Work(ValueError()))
    await asyncio.sleep(0)
    await tasks.close()

    assert all(task.cancelled() for task in (one, other, dying))
    for task in (one, other, dying):
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_of_many_calls_few_are_under_way_at_the_same_time():
    running = most = 0

    async def ask(name: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return name

    found, failed = await gather([str(n) for n in range(1_000)], ask)

    assert (len(found), failed) == (1_000, {})
    assert 1 < most <= 64
