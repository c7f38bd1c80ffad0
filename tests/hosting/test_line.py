"""Frames on their way between a host and a client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.line import Line


class Heard(Line):
    """A line that remembers its frames."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []

    def heard(self, frame: bytes) -> None:
        self.frames.append(frame)

    def come(self, data: bytes) -> None:
        """Bytes, as the event loop brings them."""
        self.get_buffer(-1)[: len(data)] = data
        self.buffer_updated(len(data))


@given(st.lists(st.binary(max_size=300), max_size=5), st.lists(st.integers(1, 40), min_size=1))
def test_frames_are_whole_however_they_come(sent, sizes):
    stream = b"".join(map(wire.framed, sent))
    line, place, turn = Heard(), 0, 0
    while place < len(stream):
        size = sizes[turn % len(sizes)]
        line.come(stream[place : place + size])
        place, turn = place + size, turn + 1

    assert line.frames == sent


@pytest.mark.parametrize(("size", "taken"), [(10, True), (11, False)])
def test_a_frame_that_is_longer_than_agreed_ends_the_line(size, taken):
    line = Heard()
    line.longest = 10
    line.come(wire.framed(b"x" * size))

    assert (line.frames == [b"x" * size], line.ended) == (taken, not taken)
