"""What hosts and their clients agree on."""

import socket
from multiprocessing.connection import Connection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.hosting.wire import Frames


@given(st.lists(st.binary(max_size=300), max_size=5), st.lists(st.integers(1, 40), min_size=1))
def test_frames_are_whole_however_they_come(sent, sizes):
    left, right = socket.socketpair()
    with left, right, Connection(left.detach()) as line:
        for frame in sent:
            line.send_bytes(frame)
        line.close()
        stream = b"".join(iter(lambda: right.recv(65_536), b""))
    frames, got, place = Frames(), [], 0
    while place < len(stream):
        size = sizes[place % len(sizes)]
        got += frames.feed(stream[place : place + size])
        place += size

    assert got == sent


def test_a_frame_of_more_than_two_gigabytes_is_unreadable():
    with pytest.raises(ValueError, match="2 GB"):
        Frames().feed(b"\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00")
