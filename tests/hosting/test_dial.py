"""One call of a short command to a host."""

import socket
from multiprocessing import connection as mp

import pytest

from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.dial import ask

PATIENCE = 20.0


def asked(*frames: bytes) -> object:
    """What is heard of a host that sends these frames and hangs up."""
    ours, theirs = socket.socketpair()
    with mp.Connection(theirs.detach()) as host:
        for frame in frames:
            host.send_bytes(frame)
    return ask(ours, PATIENCE, "any")


def test_the_answer_is_what_the_host_replies():
    ours, theirs = socket.socketpair()
    with mp.Connection(theirs.detach()) as host:
        host.send_bytes(wire.pack([(0, True, {"a": 1})]))

        assert ask(ours, PATIENCE, "any", "thing") == {"a": 1}
        (call,) = wire.calls(host.recv_bytes())
    assert (call.operation, call.arguments) == ("any", ("thing",))


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"no pickle"],
        [wire.pack([])],
        [wire.pack([(0, False, ("EngineFailure", ("It is gone.",)))])],
        [wire.pack([(0, False, None)])],
    ],
)
def test_whatever_else_comes_is_no_answer(frames):
    assert asked(*frames) is None


def test_a_host_that_says_nothing_is_not_waited_for():
    ours, theirs = socket.socketpair()
    with theirs:
        assert ask(ours, 0.0, "any") is None
