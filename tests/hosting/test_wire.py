"""One call of a short command to a host."""

import socket

import pytest

from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.wire import ask

PATIENCE = 20.0


def asked(*frames: bytes) -> object:
    """What is heard of a host that sends these frames and hangs up."""
    ours, theirs = socket.socketpair()
    with theirs:
        for frame in frames:
            theirs.sendall(frame)
        theirs.shutdown(socket.SHUT_WR)
        return ask(ours, PATIENCE, "any")


def test_the_answer_is_what_the_host_replies():
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(wire.framed((0, {"a": 1})))

        assert ask(ours, PATIENCE, "any", "thing") == {"a": 1}
        call = wire.Call(*wire.unpack(theirs.recv(65_536)[4:]))
    assert (call.operation, call.arguments) == ("any", ("thing",))


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"\0\0\0\x09no pickle"],
        [wire.framed((0, "cut off"))[:-1]],
        [wire.framed(())],
        [wire.framed((0, EngineFailure("It is gone.")))],
    ],
)
def test_whatever_else_comes_is_no_answer(frames):
    assert asked(*frames) is None


def test_a_host_that_says_nothing_is_not_waited_for():
    ours, theirs = socket.socketpair()
    with theirs:
        assert ask(ours, 0.0, "any") is None
