"""How HTTP connections are read: in small pieces."""

import asyncio
from typing import Any

READ_BYTES = 16_384


def small_reads(protocol: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """The protocol, with connections that asyncio reads 16 KB at a time, not 256.

    It makes room for a whole reading and gives back what was not needed. The next reading does not
    fit into what that left as soon as something lies in it, so that the heap of a busy server
    grew by a megabyte a minute.
    """

    def connection_made(self: Any, transport: Any) -> None:
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES
        protocol.connection_made(self, transport)

    return type(protocol.__name__, (protocol,), {"connection_made": connection_made})
