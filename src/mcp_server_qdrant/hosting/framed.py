"""One end of a line between a host and a client: messages in frames."""

import asyncio
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.hosting import wire

PIECE_BYTES = 262_144


class Framed(asyncio.BufferedProtocol):
    """Puts frames together as they come, and sends others.

    Bytes are read into `piece`. A large one for each reading, shrunk at once, would leave holes in
    the heap; lines of one event loop may share it, for each reading is taken out at once.
    """

    def __init__(self, piece: memoryview) -> None:
        self._piece = piece
        self._loop = asyncio.get_running_loop()
        self._frames = wire.Frames()
        self._transport: asyncio.Transport | None = None

    def heard(self, frame: bytes) -> None:
        """Take a frame. Raises one of `wire.UNREADABLE`."""
        raise NotImplementedError

    def garbled(self) -> None:
        """The other end does not speak as it should."""
        raise NotImplementedError

    @override
    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        return self._piece

    @override
    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.feed(self._piece[:nbytes]):
                self.heard(frame)
        except wire.UNREADABLE:
            self.garbled()

    def write(self, message: Any) -> None:
        """Send a frame, at once or when there is room."""
        if self._transport is not None:
            self._transport.write(wire.framed(wire.pack(message)))

    def abort(self) -> None:
        """Close the socket, whatever is still to be sent."""
        if self._transport is not None:
            self._transport.abort()
