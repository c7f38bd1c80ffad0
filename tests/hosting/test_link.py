"""The client's end of the line to a host."""

import asyncio
import contextlib
import time
from multiprocessing import connection as mp
from pathlib import Path
from socket import socketpair

import pytest

from mcp_server_qdrant.core.access import Caller, calling
from mcp_server_qdrant.core.deadline import within
from mcp_server_qdrant.core.errors import (
    UNSURE,
    DiskFull,
    EngineFailure,
    EngineTimeout,
    RequestError,
    unsure,
)
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.link import Link, _Line
from mcp_server_qdrant.qdrant.edge.wire import service

ANA = Caller("ana", frozenset())


class Host:
    """The other end, which answers when it is told to."""

    def __init__(self, end: mp.Connection) -> None:
        self.end = end
        self.calls: list[wire.Call] = []

    async def hear(self) -> wire.Call:
        """The next call."""
        if not self.calls:
            self.calls += wire.calls(await asyncio.to_thread(self.end.recv_bytes))
        return self.calls.pop(0)

    def answer(self, number: int, well: bool, value: object) -> None:
        self.end.send_bytes(wire.pack([(number, well, value)]))


@contextlib.asynccontextmanager
async def line(timeout: float = 30.0):
    ours, theirs = (mp.Connection(one.detach()) for one in socketpair())
    link = Link(service(Path("unused")), timeout)
    link._line = _Line(ours, asyncio.get_running_loop())
    try:
        yield link, Host(theirs)
    finally:
        theirs.close()
        await link.close()


async def test_a_call_says_whose_it_is_and_until_when_it_is_of_use():
    async with line() as (link, host):
        with calling(ANA), within(5.0):
            task = asyncio.ensure_future(link.call("count", "c"))
        heard = await host.hear()
        host.answer(heard.number, True, 7)

        assert await task == 7
    assert heard[1:3] == ("count", ("c",))
    assert heard.caller == "ana"
    assert time.monotonic() < heard.until <= time.monotonic() + 5.0


@pytest.mark.parametrize(("own", "said"), [(2.0, 30.0), (30.0, 2.0)])
async def test_the_nearer_of_two_ends_counts(own, said):
    async with line() as (link, host):
        with within(said):
            task = asyncio.ensure_future(link.call("count", "c", timeout=own))
        heard = await host.hear()
        task.cancel()

    assert heard.until <= time.monotonic() + 2.0
    assert heard.caller == ""


async def test_a_call_that_the_host_dropped_was_too_late_and_was_not_done():
    async with line() as (link, host):
        task = asyncio.ensure_future(link.call("upsert", "c", []))
        heard = await host.hear()
        host.answer(*heard.dropped)

        with pytest.raises(EngineTimeout) as late:
            await task
    assert "may or may not" not in str(late.value)


async def test_a_write_that_nobody_answers_in_time_may_have_been_done():
    async with line() as (link, _):
        with pytest.raises(EngineTimeout, match="may or may not"):
            await link.call("upsert", "c", [], timeout=0.01)


@pytest.mark.parametrize(
    ("operation", "error", "doubted"),
    [
        ("upsert", DiskFull("Nothing was written: the disk is full."), True),
        ("upsert", unsure(EngineFailure("It could not be flushed.")), True),
        ("upsert", RequestError("There is no vector of that name."), False),
        ("count", EngineFailure("It is damaged."), False),
    ],
    ids=["a failure", "a failure that says so itself", "a refusal", "a read"],
)
async def test_a_repeated_write_that_then_fails_may_have_been_done_by_the_first_host(
    monkeypatch, operation, error, doubted
):
    async with line() as (link, host):
        ours, theirs = (mp.Connection(one.detach()) for one in socketpair())
        second = Host(theirs)
        monkeypatch.setattr("mcp_server_qdrant.hosting.link.connect", lambda *_: (ours, 1))
        task = asyncio.ensure_future(link.call(operation, "c", []))
        await host.hear()
        host.end.close()
        second.answer((await second.hear()).number, False, wire.error_out(error))

        with pytest.raises(type(error)) as failed:
            await task
        theirs.close()
    assert str(failed.value).count(UNSURE) == doubted


async def test_dropped_calls_leave_room_on_the_line():
    async with line() as (link, host):
        for _ in range(3):
            task = asyncio.ensure_future(link.call("count", "c" * 10_000))
            heard = await host.hear()
            host.answer(*heard.dropped)
            with pytest.raises(EngineTimeout):
                await task

        assert link._line._unanswered == 0
