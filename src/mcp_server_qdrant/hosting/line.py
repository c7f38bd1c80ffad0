"""One end of the connection between a host and a client."""

import asyncio
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.hosting import wire

_PIECE_BYTES = 65_536  # read at once
LONGEST = 2**32  # bytes of a frame


class Line(asyncio.BufferedProtocol):
    """Puts frames together as they come, and sends others.

    Bytes are read into a buffer that stays: a new large one for each reading, shrunk at once,
    would leave holes in the heap.
    """

    def __init__(self) -> None:
        self._piece = memoryview(bytearray(_PIECE_BYTES))
        self._kept = bytearray()
        self._transport: asyncio.Transport | None = None
        self.longest = LONGEST
        self.ended = False

    def heard(self, frame: bytes) -> None:
        """Take a frame. Raises one of `wire.UNREADABLE`."""
        raise NotImplementedError

    @override
    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        return self._piece

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self._kept += self._piece[:nbytes]
        try:
            while len(self._kept) >= 4 and not self.ended:
                end = 4 + wire.length(self._kept)
                if end > 4 + self.longest:
                    raise ValueError("The frame is too long.")
                if end > len(self._kept):
                    return
                frame = bytes(memoryview(self._kept)[4:end])
                del self._kept[:end]
                self.heard(frame)
        except wire.UNREADABLE:
            self.hang_up()

    def write(self, frame: bytes) -> None:
        """Send a frame, at once or when there is room."""
        if self._transport is not None and not self.ended:
            self._transport.write(wire.framed(frame))

    def hang_up(self) -> None:
        """Close the socket, whatever is still to be sent."""
        self.ended = True
        if self._transport is not None:
            self._transport.abort()
