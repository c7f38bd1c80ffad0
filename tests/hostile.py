"""Local servers whose responses are endless, slow (byte by byte) or too large."""

import asyncio
import gzip
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import cache

PIECE = 1 << 16
IN_BUFFERS = 12_000_000  # an upper bound of the bytes in the sockets' buffers
SLOW = 0.02  # seconds between the bytes of a slow response
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SIZED = HEAD + b"Content-Length: %d\r\n\r\n"
UNSIZED = HEAD + b"Connection: close\r\n\r\n"
GREAT = SIZED % 10**15


@cache
def packed() -> bytes:
    return gzip.compress(b"1" * 100_000_000, 1)


def chunked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)


def many(text: bytes) -> Iterator[bytes]:
    """Yield the text forever."""
    return itertools.repeat(text * (PIECE // len(text)))


def whole(body: bytes, *headers: bytes) -> list[bytes]:
    lines = (HEAD.rstrip(), *headers, b"Content-Length: %d" % len(body), b"", body)
    return [b"\r\n".join(lines)]


# Kind -> the chunks of a response. `HEAVY` ones are finite but would take much memory; `LATE` ones
# pause after each chunk.
ENDLESS = {
    "a body in chunks": lambda: chunked(many(b"x")),
    "a body of a great length": lambda: itertools.chain([GREAT], many(b"x")),
    "a body without a length": lambda: itertools.chain([UNSIZED], many(b"x")),
    "a number": lambda: chunked(itertools.chain([b'{"result":1'], many(b"1"))),
    "lists in lists": lambda: chunked(itertools.chain([b'{"result":'], many(b"["))),
    "objects": lambda: chunked(itertools.chain([b'{"result":['], many(b"{},"))),
    "a header": lambda: itertools.chain([HEAD + b"X-Long: "], many(b"x")),
    "headers": lambda: itertools.chain([HEAD], many(b"X-Many: x\r\n")),
    "a chunk's description": lambda: itertools.chain(
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;"], many(b"x")
    ),
    "trailers": lambda: itertools.chain(
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n"], many(b"X-Many: x\r\n")
    ),
}
HEAVY = {
    "a packed body": lambda: whole(packed(), b"Content-Encoding: gzip"),
    "too many objects": lambda: whole(b'{"result":[%s{}]}' % (b"{}," * 3_000_000)),
    "too many lists": lambda: whole(b'{"result":[%s[]]}' % (b"[]," * 3_000_000)),
    "many objects": lambda: whole(b'{"result":[%s{}]}' % (b'{"id":1,"a":[]},' * 27_000)),
    "some numbers": lambda: whole(b'{"result":[%s0]}' % (b"0.1," * 78_000)),
    "many numbers": lambda: whole(b'{"result":[%s0]}' % (b"0.1," * 990_000)),
    "refused items": lambda: whole(b'{"result":{"collections":[%s0]}}' % (b"0.1," * 78_000)),
    "some text": lambda: whole(b'{"result":"%s\xf0\x9f\x98\x80"}' % (b"x" * 3_900_000)),
    "much text": lambda: whole(b'{"result":"%s\xf0\x9f\x98\x80"}' % (b"x" * 9_900_000)),
    "too deep lists": lambda: whole(b'{"result":%s%s}' % (b"[" * 50_000, b"]" * 50_000)),
    "too long a number": lambda: whole(b'{"result":%s}' % (b"1" * 1_000_000)),
}
LATE = {
    "a head byte by byte": lambda: itertools.chain([HEAD + b"X-Long: "], itertools.repeat(b"x")),
    "a body byte by byte": lambda: itertools.chain([GREAT], itertools.repeat(b"x")),
    "hints": lambda: many(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "nothing": lambda: itertools.repeat(b""),
}


class Hostile:
    """`sent` is the size in bytes of the largest response."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.sent = 0
        self.url = ""

    async def answer(self, writer: asyncio.StreamWriter) -> None:
        sent = 0
        for piece in (ENDLESS | HEAVY | LATE)[self.kind]():
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            self.sent = max(self.sent, sent)
            if self.kind in LATE:
                await asyncio.sleep(SLOW)


@asynccontextmanager
async def hostile(kind: str) -> AsyncIterator[Hostile]:
    """A server that answers every request in this way."""
    server = Hostile(kind)
    tasks = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].split()
                await reader.readexactly(int(length[0]) if length else 0)
                await server.answer(writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
