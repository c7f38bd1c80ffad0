"""Lines in and out of pipes, on the event loop."""

import asyncio
import contextlib
import os
import select
import socket

import pytest

from mcp_server_qdrant.app.stdio import PIECE, Answers, Lines


@pytest.fixture(params=["pipe", "socket"])
def ends(request):
    """(number to read from, number to write to)"""
    if request.param == "pipe":
        pair = os.pipe()
    else:
        pair = tuple(one.detach() for one in socket.socketpair())
    yield pair
    for number in pair:
        with contextlib.suppress(OSError):  # closed by the test
            os.close(number)


async def all_lines(number):
    return [line async for line in Lines(number)]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\n\ntwo", ["one", "", "two"]),
        ("ü\n".encode(), ["ü"]),
        (b"\xff\n", ["\ufffd"]),
        (b"x" * (2 * PIECE + 7) + b"\ny", ["x" * (2 * PIECE + 7), "y"]),
    ],
)
async def test_lines_come_as_they_were_sent(ends, sent, expected):
    source, target = ends

    def send():
        left = sent
        while left:
            left = left[os.write(target, left) :]
        os.close(target)

    sending = asyncio.create_task(asyncio.to_thread(send))

    assert await all_lines(source) == expected
    await sending


async def test_a_character_may_come_in_two_pieces(ends):
    source, target = ends
    reading = asyncio.create_task(all_lines(source))
    for byte in "é\n".encode():
        os.write(target, bytes([byte]))
        await asyncio.to_thread(lambda: None)  # the loop turns
    os.close(target)

    assert await reading == ["é"]


async def test_a_client_that_does_not_read_holds_up_its_answer_and_not_the_loop(ends):
    source, target = ends
    text = "a" * 3_000_000
    writing = asyncio.create_task(Answers(target).write(text))
    while select.select([], [target], [], 0)[1]:
        await asyncio.sleep(0)  # until the pipe is full

    assert not writing.done()

    read = 0
    while read < len(text):
        read += len(await asyncio.to_thread(os.read, source, 1 << 20))
    await writing
    assert read == len(text)


async def test_a_client_that_has_gone_is_a_broken_pipe(ends):
    source, target = ends
    os.close(source)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        await Answers(target).write("a" * 1_000_000)
