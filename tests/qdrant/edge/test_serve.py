"""Inside the host: callers take turns, and what comes too late is not done."""

import asyncio
import math
import socket
import time

import pytest

from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.hosting import host, wire
from mcp_server_qdrant.qdrant.edge import serve as edge_serve
from mcp_server_qdrant.qdrant.edge.serve import Worker
from mcp_server_qdrant.qdrant.edge.wire import EdgeOptions
from tests.qdrant.edge.test_safety import Replies, done, shards_in


class Steady:
    """Time that passes where a test lets it."""

    def __init__(self, monkeypatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(edge_serve.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(edge_serve.time, "sleep", self.work)

    def work(self, seconds: float) -> None:
        self.now += seconds


def call(number: int, operation: str, *arguments, caller: str = "", until: float = math.inf):
    return wire.Call(number, operation, arguments, until, caller)


class Desk:
    """A worker whose operations are a test's; `heard` puts calls, `serve` does what waits."""

    def __init__(self, folder, **reads) -> None:
        self.replies = Replies()
        self.worker = Worker(shards_in(folder), EdgeOptions())
        self.worker._operations = reads

    def heard(self, *calls: wire.Call) -> None:
        for one in calls:
            self.worker.put(self.replies, one)

    def serve(self) -> list[int]:
        """The numbers of the calls in the order of their replies."""
        asyncio.run(self.worker._serve())
        return [number for number, _, _ in self.replies]

    def finish(self) -> list[int]:
        """The same, until nothing waits."""
        while self.worker._reads:
            self.serve()
        return self.serve()


def test_a_call_that_is_late_when_its_turn_comes_is_not_done(monkeypatch, tmp_path):
    clock, begun = Steady(monkeypatch), []

    def read(name):
        begun.append(name)
        clock.work(3.0)

    desk = Desk(tmp_path, r=read)
    desk.heard(call(1, "r", "a"), call(2, "r", "b", until=2.0), call(3, "r", "c", until=5.0))
    desk.finish()

    assert begun == ["a", "c"]
    assert desk.replies == [(1, True, None), (2, False, None), (3, True, None)]


def test_a_call_that_becomes_late_between_two_slices_is_given_up(monkeypatch, tmp_path):
    clock, slices = Steady(monkeypatch), []

    def read():
        try:
            while True:
                slices.append(clock.now)
                clock.work(1.0)
                yield
        finally:
            slices.append("given up")

    desk = Desk(tmp_path, r=read)
    desk.heard(call(1, "r", until=2.5))
    desk.finish()

    assert [at if at == "given up" else int(at) for at in slices] == [0, 1, 2, "given up"]
    assert desk.replies == [(1, False, None)]


def test_nothing_more_is_done_for_a_client_that_has_gone(tmp_path):
    begun = []
    desk = Desk(tmp_path, r=lambda: begun.append(1))
    desk.heard(call(1, "r"))
    desk.replies.gone = True
    desk.finish()

    assert begun == []


def test_one_callers_slow_calls_leave_room_for_anothers(monkeypatch, tmp_path):
    clock = Steady(monkeypatch)

    def slow():
        for _ in range(10):
            clock.work(0.01)
            yield

    desk = Desk(tmp_path, slow=slow, quick=lambda: clock.work(0.001))
    desk.heard(*(call(number, "slow", caller="red") for number in range(4)))
    desk.heard(call(7, "quick", caller="blue"), call(8, "quick", caller="blue"))

    assert desk.finish()[:2] == [7, 8]


@pytest.mark.parametrize("caller", ["", "another"])
def test_what_comes_during_a_slice_of_a_slow_call_goes_before_its_next(
    monkeypatch, tmp_path, caller
):
    clock = Steady(monkeypatch)
    heard = []

    def slow():
        for number in range(5):
            clock.work(0.009)
            if number == 3:
                desk.heard(call(2, "quick", caller=caller))
            heard.append(number)
            yield

    desk = Desk(tmp_path, slow=slow, quick=lambda: heard.append("quick"))
    desk.heard(call(1, "slow"))
    desk.finish()

    assert heard == [0, 1, 2, 3, "quick", 4]


def test_calls_of_one_caller_take_turns_too(monkeypatch, tmp_path):
    clock = Steady(monkeypatch)

    def slow(steps):
        for _ in range(steps):
            clock.work(1.0)
            yield

    desk = Desk(tmp_path, slow=slow)
    desk.heard(call(1, "slow", 9), call(2, "slow", 2))

    assert desk.finish() == [2, 1]


def test_a_quick_call_is_done_in_one_go(monkeypatch, tmp_path):
    clock = Steady(monkeypatch)
    seen = []

    def read(name):
        for _ in range(3):
            seen.append(name)
            clock.work(0.0001)
            yield
        return name

    desk = Desk(tmp_path, r=read)
    desk.heard(call(1, "r", "a", caller="x"), call(2, "r", "b", caller="y"))
    desk.finish()

    assert "".join(seen) == "aaabbb"
    assert desk.replies == [(1, True, "a"), (2, True, "b")]


def test_an_error_between_two_slices_is_its_calls_alone(tmp_path):
    def broken():
        yield
        raise EngineFailure("damaged")

    desk = Desk(tmp_path, broken=broken, fine=lambda: "well")
    desk.heard(call(1, "broken"), call(2, "fine"))
    desk.finish()

    assert desk.replies[0][:2] == (1, False)
    assert "damaged" in str(wire.error_in(desk.replies[0][2]))
    assert desk.replies[1] == (2, True, "well")


def test_an_operation_that_nobody_knows_is_refused(tmp_path):
    desk = Desk(tmp_path)
    desk.heard(call(1, "format_the_disk"))

    assert "knows no operation 'format_the_disk'" in str(wire.error_in(desk.replies[0][2]))


@pytest.fixture
def worker(tmp_path) -> Worker:
    return Worker(shards_in(tmp_path, "a"), EdgeOptions())


def upsert(number: int, caller: str = "", until: float = math.inf) -> wire.Call:
    points = [wire.pack([(number, {"d": [1.0, 2.0]}, {})])]
    return wire.Call(number, "upsert", ("a", points), until, caller)


def test_a_write_that_is_late_when_its_turn_comes_is_not_done(worker):
    replies = Replies()
    done(worker, [(replies, upsert(1, until=time.monotonic() - 1)), (replies, upsert(2))])

    assert [reply[:2] for reply in replies] == [(1, False), (2, True)]
    assert replies[0][2] is None
    assert worker._writes._shards.exact_count(worker._writes._shards.get("a")) == 1


def test_writes_of_several_callers_take_turns_and_those_of_one_keep_their_order(worker):
    session = Replies()
    for number in range(40):
        worker.put(session, upsert(number, "red"))
    for number in (50, 51):
        worker.put(session, upsert(number, "blue"))
    order = []
    for _ in range(42):
        _, one = worker._tasks.take()
        order.append(one.number)

    assert set(order[:4]) == {0, 1, 50, 51}
    assert [number for number in order if number < 50] == list(range(40))


def test_what_is_queued_is_written_before_the_worker_ends(worker):
    replies = Replies()
    for number in range(70):
        worker.put(replies, upsert(number))
    worker.finish()
    asyncio.run(worker.run())

    assert [reply[:2] for reply in replies] == [(number, True) for number in range(70)]


async def test_a_client_that_takes_no_answers_is_hung_up(monkeypatch):
    monkeypatch.setattr(host, "_SEND_SECONDS", 0.05)
    ours, theirs = socket.socketpair()
    left = asyncio.Event()

    class Watch(host.Work):
        def left(self, client) -> None:
            left.set()

    client = host.Client(Watch())
    await asyncio.get_running_loop().connect_accepted_socket(lambda: client, ours)
    client.send([(1, True, "x" * 5_000_000)])

    await left.wait()
    assert client.gone
    theirs.close()
