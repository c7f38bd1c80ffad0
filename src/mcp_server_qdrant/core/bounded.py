"""Answers of other servers, bounded: httpx limits neither their size nor what they unpack to."""

from collections.abc import AsyncIterator, Mapping, Sequence

import httpx

TOGETHER = 512_000_000  # bytes of all answers that are being read
LARGEST = 4_000_000  # bytes of an answer; as text each may take four more, and once again
HEAVIEST = 32_000_000  # bytes that its objects, lists and items may take
# The bytes that these signs of a JSON text stand for at most, when it is parsed.
PARSED: Mapping[bytes, int] = {b"{": 240, b"[": 90, b",": 32}
SMALL = HEAVIEST // 1_000  # bytes of an answer that cannot be too heavy
PLAIN = {"Accept-Encoding": "identity"}  # of a request, so that its answer is not packed


class TooLarge(Exception):
    """An answer would take more memory than it may."""


class Reading:
    """The bytes of an answer that is being read, a part of what all of them may take together."""

    together = 0

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._size = 0

    def add(self, size: int) -> None:
        """So many more were read. Raises TooLarge."""
        self._size += size
        Reading.together += size
        if self._size > self._largest or Reading.together > TOGETHER:
            raise TooLarge

    def end(self) -> None:
        """The answer was read, or given up."""
        Reading.together -= self._size
        self._size = 0


def weigh(pieces: Sequence[bytes], costs: Mapping[bytes, int] = PARSED) -> None:
    """Check what a JSON text takes when it is read. Raises TooLarge."""
    if sum(map(len, pieces)) > SMALL:
        weight = sum(cost * piece.count(sign) for piece in pieces for sign, cost in costs.items())
        if weight > HEAVIEST:
            raise TooLarge


async def bounded(
    response: httpx.Response, costs: Mapping[bytes, int] = PARSED, largest: int = LARGEST
) -> None:
    """Bound an answer before it is read, and leave it packed: a hook of httpx's clients.

    The reading raises TooLarge.
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
        weigh(pieces, self._costs)

    async def aclose(self) -> None:
        self._reading.end()
        await self._inner.aclose()
