"""A host at work: callers take turns, and what comes too late is not done."""

import asyncio
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.host import Work, listening
from mcp_server_qdrant.hosting.wire import Rendezvous, ask

WIRE = 1


class Somebody:
    """A client that remembers its replies."""

    def __init__(self) -> None:
        self.replies: list[tuple[int, Any]] = []

    def write(self, frame: bytes) -> None:
        self.replies.append(wire.unpack(frame[4:]))

    def is_closing(self) -> bool:
        return False


class Desk(Work):
    """Work in steps, whose order is remembered; calls of one operation share a queue."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def queue(self, call: wire.Call) -> str:
        return call.operation

    async def do(self, client: Any, call: wire.Call) -> str:
        if call.operation == "refuse":
            raise RequestError("No.")
        if call.operation == "break":
            raise ZeroDivisionError("/secret/path")
        for _ in range(*call.arguments):
            self.done.append(f"{call.caller} {call.number}")
            await asyncio.sleep(0)
        return call.caller

    async def finished(self, *calls: wire.Call) -> list[tuple[int, Any]]:
        """The replies to calls that came together."""
        somebody = Somebody()
        for call in calls:
            self.take(somebody, call)
        await self.end()
        return somebody.replies


def call(number: int, steps: int = 1, caller: str = "", until: float = math.inf, what="do"):
    return wire.Call(number, what, (steps,), until, caller)


async def test_calls_of_one_caller_are_done_in_their_order():
    desk = Desk()
    replies = await desk.finished(call(1, 3), call(2, 1), call(3, 2))

    assert desk.done == [" 1", " 1", " 1", " 2", " 3", " 3"]
    assert [number for number, *_ in replies] == [1, 2, 3]


async def test_a_caller_with_many_calls_leaves_room_for_anothers():
    desk = Desk()
    many = [call(number, caller="red") for number in range(50)]
    await desk.finished(*many, call(50, caller="blue"), call(51, caller="blue"))

    assert desk.done[:4] == ["red 0", "blue 50", "red 1", "blue 51"]


async def test_a_quick_call_of_another_caller_overtakes_a_slow_one():
    replies = await Desk().finished(call(1, 9, "red"), call(2, 1, "blue"))

    assert replies == [(2, "blue"), (1, "red")]


async def test_a_call_that_is_late_when_its_turn_comes_is_not_done():
    desk = Desk()
    replies = await desk.finished(call(1), call(2, until=time.monotonic() - 1), call(3))

    assert desk.done == [" 1", " 3"]
    assert [number for number, *_ in replies] == [1, 3]


async def test_an_error_is_its_calls_alone_and_one_that_nobody_foresaw_says_no_more(caplog):
    broken, refused, well = await Desk().finished(
        call(1, what="break"), call(2, what="refuse"), call(3)
    )

    assert (str(refused[1]), well) == ("No.", (3, ""))
    assert str(broken[1]) == "an unexpected ZeroDivisionError"
    assert "/secret/path" in caplog.text


async def test_who_knows_the_key_is_answered_and_nobody_else(tmp_path):
    place = tmp_path / "desk.json"
    async with listening(place, WIRE, Desk()) as here:
        found = Rendezvous.read(place)
        stranger, socket = found._replace(key=b"another"), Path(found.address)
        modes = [path.stat().st_mode & 0o077 for path in (place, socket, socket.parent)]

        assert await asyncio.to_thread(stranger.dial, 20.0) is None
        assert here == set()
        assert modes == [0, 0, 0]
        line = await asyncio.to_thread(found.dial, 20.0)
        assert len(here) == 1
        assert await asyncio.to_thread(ask, line, 20.0, "do", 1) == ""
    assert not place.exists()
    assert await asyncio.to_thread(found.dial, 20.0) is None


@pytest.mark.parametrize("sent", [b"", b"short", b"x" * 64, b"x" * 5_000])
async def test_whatever_a_stranger_sends_it_is_never_unpickled(tmp_path, monkeypatch, sent):
    monkeypatch.setattr(wire, "unpack", None)
    async with listening(tmp_path / "desk.json", WIRE, Desk()) as here:
        address = Rendezvous.read(tmp_path / "desk.json").address
        reader, writer = await asyncio.open_unix_connection(address)
        await reader.readexactly(wire.NONCE)
        writer.write(sent)
        writer.write_eof()

        assert await reader.read() == b""
        assert here == set()
        writer.close()


async def test_a_host_leaves_the_files_of_the_next_one_alone(tmp_path):
    place = tmp_path / "desk.json"
    async with listening(place, WIRE, Desk()):
        following = Rendezvous("elsewhere", b"key", 1, WIRE)
        following.write(place)

    assert Rendezvous.read(place) == following


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
def test_a_log_that_finds_no_room_does_not_end_the_host(tmp_path):
    code = """
import logging, sys
from mcp_server_qdrant.hosting import host

class Noisy(host.Work):
    async def end(self):
        logging.getLogger("any").warning("x")

host.serve([sys.argv[1] + "/any.json", "1", '{"idle_seconds": 0.05}'], lambda *_: Noisy())
"""
    with FULL.open("wb") as full:
        command = [sys.executable, "-c", code, str(tmp_path)]
        assert subprocess.run(command, stderr=full, check=False, timeout=60).returncode == 0
