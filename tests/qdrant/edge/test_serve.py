"""Inside the host: callers take turns, and what comes too late is not done."""

import contextlib
import math
import threading
import time
from multiprocessing import Pipe

import pytest

from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.qdrant.edge import serve as edge_serve
from mcp_server_qdrant.qdrant.edge.gate import Gate
from mcp_server_qdrant.qdrant.edge.serve import Session, Writer
from mcp_server_qdrant.qdrant.edge.wire import EdgeOptions
from tests.fakes import Line
from tests.qdrant.edge.test_safety import Replies, shards_in


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


def served(line: Line, **reads) -> list[int]:
    """The numbers of the calls in the order of their replies; `reads` are the host's operations."""
    session = Session(line, None, Gate(), None)
    session._reads = reads
    with pytest.raises(EOFError):
        session.run()
    return [number for number, _, _ in line.replies]


def test_a_call_that_is_late_when_its_turn_comes_is_not_done(monkeypatch):
    clock, done = Steady(monkeypatch), []

    def read(name):
        done.append(name)
        clock.work(3.0)

    line = Line([call(1, "r", "a"), call(2, "r", "b", until=2.0), call(3, "r", "c", until=5.0)])
    served(line, r=read)

    assert done == ["a", "c"]
    assert line.replies == [(1, True, None), (2, False, None), (3, True, None)]


def test_a_call_that_becomes_late_between_two_slices_is_given_up(monkeypatch):
    clock, slices = Steady(monkeypatch), []

    def read():
        try:
            while True:
                slices.append(clock.now)
                clock.work(1.0)
                yield
        finally:
            slices.append("given up")

    line = Line([call(1, "r", until=2.5)])
    served(line, r=read)

    assert slices == [0.0, 1.0, 2.0, "given up"]
    assert line.replies == [(1, False, None)]


def test_one_callers_slow_calls_leave_room_for_anothers(monkeypatch):
    clock = Steady(monkeypatch)

    def slow():
        for _ in range(10):
            clock.work(1.0)
            yield

    def quick():
        clock.work(0.001)

    hostile = [call(number, "slow", caller="red") for number in range(4)]
    line = Line(hostile, [call(7, "quick", caller="blue")], [call(8, "quick", caller="blue")])

    assert served(line, slow=slow, quick=quick)[:2] == [7, 8]


@pytest.mark.parametrize("caller", ["", "another"])
def test_what_comes_during_a_slice_of_a_slow_call_goes_before_its_next(monkeypatch, caller):
    clock = Steady(monkeypatch)
    line = Line([call(1, "slow")])
    heard = []

    def slow():
        for number in range(5):
            clock.work(1.0)
            if number == 2:
                line.frames.append(wire.pack([tuple(call(2, "quick", caller=caller))]))
            heard.append(number)
            yield

    served(line, slow=slow, quick=lambda: heard.append("quick"))

    assert heard == [0, 1, 2, "quick", 3, 4]


def test_calls_of_one_caller_take_turns_too(monkeypatch):
    clock = Steady(monkeypatch)

    def slow(steps):
        for _ in range(steps):
            clock.work(1.0)
            yield

    line = Line([call(1, "slow", 9), call(2, "slow", 2)])

    assert served(line, slow=slow) == [2, 1]


def test_a_quick_call_is_done_in_one_go(monkeypatch):
    clock = Steady(monkeypatch)
    seen = []

    def read(name):
        for _ in range(3):
            seen.append(name)
            clock.work(0.0001)
            yield
        return name

    line = Line([call(1, "r", "a", caller="x"), call(2, "r", "b", caller="y")])
    served(line, r=read)

    assert "".join(seen) == "aaabbb"
    assert line.replies == [(1, True, "a"), (2, True, "b")]


def test_an_error_between_two_slices_is_its_calls_alone():
    def broken():
        yield
        raise EngineFailure("damaged")

    line = Line([call(1, "broken"), call(2, "fine")])
    served(line, broken=broken, fine=lambda: "well")

    assert line.replies[0][:2] == (1, False)
    assert "damaged" in str(wire.error_in(line.replies[0][2]))
    assert line.replies[1] == (2, True, "well")


def test_an_operation_that_nobody_knows_is_refused():
    line = Line([call(1, "format_the_disk")])
    served(line)

    assert "knows no operation 'format_the_disk'" in str(wire.error_in(line.replies[0][2]))


class Threads:
    """Threads that wait at a gate, one after the other."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.order: list[str] = []
        self.threads: list[threading.Thread] = []

    def wait(self, who: str) -> None:
        """Let a thread wait for its turn; it does wait when this returns."""
        before = self.waiting()
        thread = threading.Thread(target=self._enter, args=(who,))
        thread.start()
        self.threads.append(thread)
        while self.waiting() == before:
            time.sleep(0.001)

    def waiting(self) -> int:
        return sum(map(len, self.gate._waiting._waiting.values()))

    def _enter(self, who: str) -> None:
        with self.gate.reading(who):
            self.order.append(who)

    def end(self) -> list[str]:
        for thread in self.threads:
            thread.join()
        return self.order


def test_at_the_gate_who_has_used_least_goes_next():
    gate = Gate()
    threads = Threads(gate)
    with gate.reading("quiet"):
        for who in ("hungry", "hungry", "modest"):
            threads.wait(who)
        gate._waiting.charge("hungry", 100.0)

    assert threads.end() == ["modest", "hungry", "hungry"]


def test_a_gate_that_is_shut_lets_nobody_through():
    gate = Gate()
    gate.shut()
    entered = threading.Event()

    def enter() -> None:
        with gate.reading():
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    while not gate._waiting:
        time.sleep(0.001)

    assert not entered.is_set()


@pytest.fixture
def writer(tmp_path) -> Writer:
    return Writer(shards_in(tmp_path, "a"), Gate(), EdgeOptions())


def upsert(number: int, caller: str = "", until: float = math.inf) -> wire.Call:
    points = [wire.pack([(number, {"d": [1.0, 2.0]}, {})])]
    return wire.Call(number, "upsert", ("a", points), until, caller)


def test_a_write_that_is_late_when_its_turn_comes_is_not_done(writer):
    replies = Replies()
    writer._do([(replies, upsert(1, until=time.monotonic() - 1)), (replies, upsert(2))])

    assert [reply[:2] for reply in replies] == [(1, False), (2, True)]
    assert replies[0][2] is None
    assert writer._writes._shards.exact_count(writer._writes._shards.get("a")) == 1


def test_writes_of_several_callers_take_turns_and_those_of_one_keep_their_order(writer):
    session = Replies()
    for number in range(40):
        writer.put(session, upsert(number, "red"))
    for number in (50, 51):
        writer.put(session, upsert(number, "blue"))
    order = []
    for _ in range(42):
        _, one = writer._next()
        order.append(one.number)
        writer._waiting.charge((id(session), one.caller), 1.0)

    assert set(order[:4]) == {0, 1, 50, 51}
    assert [number for number in order if number < 50] == list(range(40))


def test_what_is_queued_is_written_before_the_writer_ends(writer):
    replies = Replies()
    for number in range(70):
        writer.put(replies, upsert(number))
    writer.start()
    writer.finish()

    assert [reply[:2] for reply in replies] == [(number, True) for number in range(70)]


def test_the_session_works_over_a_real_line(tmp_path):
    ours, theirs = Pipe()
    shards = shards_in(tmp_path, "a")
    session = Session(ours, shards, Gate(), None)

    def run() -> None:
        with contextlib.suppress(EOFError):
            session.run()

    thread = threading.Thread(target=run)
    thread.start()
    theirs.send_bytes(
        wire.pack([tuple(call(1, "collections")), tuple(call(2, "count", "a", None))])
    )

    assert wire.unpack(theirs.recv_bytes()) == [(1, True, ["a"]), (2, True, 0)]
    theirs.close()
    thread.join()
    ours.close()
