"""Answers of other servers, bounded: httpx limits neither their size nor what they unpack to."""

from collections.abc import AsyncIterator

import httpx

LARGEST = 4_000_000  # bytes of an answer; as text each may take four more, and once again
PLAIN = {"Accept-Encoding": "identity"}  # of a request, so that its answer is not packed


class TooLarge(Exception):
    """An answer has more bytes than it may."""


async def bounded(response: httpx.Response, largest: int = LARGEST) -> None:
    """Bound an answer before it is read, and leave it packed: a hook of httpx's clients.

    The reading raises TooLarge.
    """
    response.headers.pop("content-encoding", None)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Bounded(response.stream, largest)


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, largest: int) -> None:
        self._inner = inner
        self._left = largest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._left -= len(piece)
            if self._left < 0:
                raise TooLarge
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
