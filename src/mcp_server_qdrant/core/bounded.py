"""Limits on responses: httpx bounds neither their size nor what they decompress to."""

from collections.abc import AsyncIterator, Mapping, Sequence

import httpx

TOGETHER = 512_000_000  # bytes of all responses being read
LARGEST = 4_000_000  # bytes of a response; its text may take four times as much, in two copies
HEAVIEST = 32_000_000  # estimated bytes of its parsed objects, lists and items
# Memory per character of parsed JSON, in bytes: upper bounds.
PARSED: Mapping[bytes, int] = {b"{": 240, b"[": 90, b",": 32}
SMALL = HEAVIEST // 1_000  # bytes of a response that needs no check
PLAIN = {"Accept-Encoding": "identity"}  # request header against compressed responses


class TooLarge(Exception):
    """A response would take too much memory."""


class Reading:
    """Counts the bytes of a response being read, and of all such responses together."""

    together = 0

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._size = 0

    def add(self, size: int) -> None:
        """Add bytes that were read. Raises TooLarge."""
        self._size += size
        Reading.together += size
        if self._size > self._largest or Reading.together > TOGETHER:
            raise TooLarge

    def end(self) -> None:
        """Release the bytes: the response was read or abandoned."""
        Reading.together -= self._size
        self._size = 0


def check_weight(pieces: Sequence[bytes], costs: Mapping[bytes, int] = PARSED) -> None:
    """Check how much memory a parsed JSON text takes. Raises TooLarge."""
    if sum(map(len, pieces)) > SMALL:
        weight = sum(cost * piece.count(sign) for piece in pieces for sign, cost in costs.items())
        if weight > HEAVIEST:
            raise TooLarge


async def limit_body(
    response: httpx.Response, costs: Mapping[bytes, int] = PARSED, largest: int = LARGEST
) -> None:
    """A response hook for httpx that bounds the body and does not decompress it.

    Reading the body raises TooLarge.
    """
    response.headers.pop("content-encoding", None)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Bounded(response.stream, costs, largest)


class _Bounded(httpx.AsyncByteStream):
    def __init__(
        self, inner: httpx.AsyncByteStream, costs: Mapping[bytes, int], largest: int
    ) -> None:
        self._inner = inner
        self._costs = costs
        self._reading = Reading(largest)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = []
        async for piece in self._inner:
            self._reading.add(len(piece))
            pieces.append(piece)
            yield piece
        check_weight(pieces, self._costs)

    async def aclose(self) -> None:
        self._reading.end()
        await self._inner.aclose()
