"""The client's end of the line to a host."""

import asyncio
import contextlib
import errno
import os
import threading
import time
from pathlib import Path
from socket import MSG_WAITALL, socket, socketpair

import pytest

from mcp_server_qdrant.core.context import Caller, calling, within
from mcp_server_qdrant.core.errors import (
    UNSURE,
    DiskFull,
    EngineFailure,
    EngineUnavailable,
    RequestError,
    unsure,
)
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.link import HostLine, Link, connect
from mcp_server_qdrant.qdrant.edge.wire import service

ANA = Caller("ana", frozenset())


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            errno.EACCES,
            "Permission denied in its folder. Set QDRANT_LOCAL_PATH to a folder that you may "
            "write to.",
        ),
        (errno.EMFILE, "Too many open files. Allow this process more of them, with ulimit -n."),
    ],
)
def test_a_host_that_cannot_be_started_names_the_reason_and_what_mends_it(
    number, said, tmp_path, monkeypatch
):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(EngineUnavailable) as refused:
        connect(service(tmp_path / "new"), 5.0)

    assert str(refused.value) == f"The embedded engine could not be started: {said}"


class Host:
    """The other end, which answers when it is told to."""

    def __init__(self, end: socket) -> None:
        self.end = end

    async def hear(self) -> wire.Call:
        """The next call."""
        size = int.from_bytes(await asyncio.to_thread(self.end.recv, 4, MSG_WAITALL), "big")
        frame = await asyncio.to_thread(self.end.recv, size, MSG_WAITALL)
        return wire.Call(*wire.unpack(frame))

    def answer(self, number: int, value: object) -> None:
        self.end.sendall(wire.framed((number, value)))


def ends() -> tuple[socket, Host]:
    """A connection's two ends."""
    ours, theirs = socketpair()
    return ours, Host(theirs)


@contextlib.asynccontextmanager
async def line(timeout: float = 30.0):
    ours, host = ends()
    link = Link(service(Path("unused")), timeout)
    link._line = HostLine(*await asyncio.open_connection(sock=ours))
    try:
        yield link, host
    finally:
        host.end.close()
        await link.close()


async def test_a_call_says_whose_it_is_and_until_when_it_is_of_use():
    async with line() as (link, host):
        with calling(ANA), within(5.0):
            task = asyncio.ensure_future(link.call("count", "c"))
        heard = await host.hear()
        host.answer(heard.number, 7)

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
        ours, second = ends()
        monkeypatch.setattr("mcp_server_qdrant.hosting.link.connect", lambda *_: ours)
        changes = operation == "upsert"
        task = asyncio.ensure_future(link.call(operation, "c", [], changes=changes))
        await host.hear()
        host.end.close()
        second.answer((await second.hear()).number, error)

        with pytest.raises(type(error)) as failed:
            await task
        second.end.close()
    assert str(failed.value).count(UNSURE) == doubted


async def test_what_does_not_fit_into_the_socket_is_sent_when_there_is_room():
    async with line() as (link, host):
        tasks = [asyncio.ensure_future(link.call("upsert", "c", "x" * 5_000_000)) for _ in range(2)]
        tasks += [asyncio.ensure_future(link.call("count", str(size))) for size in range(3)]
        await asyncio.sleep(0)  # the frame is begun while nobody takes it
        for call in [await host.hear() for _ in tasks]:
            host.answer(call.number, len(call.arguments[-1]))

        assert await asyncio.gather(*tasks) == [5_000_000, 5_000_000, 1, 1, 1]


async def test_calls_under_way_are_repeated_where_their_host_hangs_up(monkeypatch):
    async with line() as (link, host):
        ours, second = ends()
        monkeypatch.setattr("mcp_server_qdrant.hosting.link.connect", lambda *_: ours)
        tasks = [asyncio.ensure_future(link.call("count", str(size))) for size in range(3)]
        await host.hear()
        host.end.close()
        for call in [await second.hear() for _ in tasks]:
            second.answer(call.number, call.arguments[0])

        assert await asyncio.gather(*tasks) == ["0", "1", "2"]
        second.end.close()


async def test_a_link_that_is_closed_while_it_connects_leaves_no_socket_open(monkeypatch):
    ours, host = ends()
    connecting, go_on = threading.Event(), threading.Event()

    def connect(*_):
        connecting.set()
        go_on.wait(30)
        return ours

    monkeypatch.setattr("mcp_server_qdrant.hosting.link.connect", connect)
    link = Link(service(Path("unused")), 30.0)
    opening = asyncio.ensure_future(link.open())
    await asyncio.to_thread(connecting.wait, 30)
    opening.cancel()
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    await link.close()

    assert ours.fileno() == -1
    host.end.close()
