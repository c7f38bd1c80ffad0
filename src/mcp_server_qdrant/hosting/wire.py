"""What a host and its clients say to each other, and how it travels.

First they prove to each other that both know the key: the host sends a nonce, the client its proof
and a nonce of its own, the host its proof. All that follow are frames: the length (4 bytes, big
endian) of a pickle, and the pickle: a `Call`, or a reply `(number, answer)`, where the answer of a
failed call is a QdrantMcpError. Only those and plain data travel.
"""

import hmac
import pickle
import struct
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from asyncio import StreamReader  # a short command does without asyncio

NONCE = PROOF = 32  # bytes


class Call(NamedTuple):
    """A request, for whom, and until when anybody waits: on the clock of `time.monotonic`.

    That clock is one for all processes of a machine. `changes`: it changes what is stored.
    """

    number: int
    operation: str
    arguments: tuple[Any, ...]
    until: float
    caller: str
    changes: bool = False

    @property
    def late(self) -> bool:
        """True once nobody waits for it."""
        return time.monotonic() > self.until


def proof(key: bytes, who: bytes, nonce: bytes) -> bytes:
    """That `who` (b"host" or b"client") knows the key, for the one who sent the nonce."""
    return hmac.digest(key, who + nonce, "sha256")


def proves(given: bytes, key: bytes, who: bytes, nonce: bytes) -> bool:
    """True where what was given is that proof."""
    return hmac.compare_digest(given, proof(key, who, nonce))


def pack(message: Any) -> bytes:
    """As plain bytes; an object that occurs twice in it travels once."""
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


# Raised by bytes that are no message.
UNREADABLE = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError),
    *(AttributeError, LookupError, ImportError),
)


def unpack(data: bytes) -> Any:
    """The message of somebody who knows the key. Raises one of `UNREADABLE`."""
    return pickle.loads(data)  # noqa: S301


def framed(message: Any) -> bytes:
    """The frame of a message."""
    data = pack(message)
    return struct.pack("!I", len(data)) + data


def length(head: bytes) -> int:
    """The length of what follows the first bytes of a frame."""
    return int.from_bytes(head, "big")


async def heard(reader: "StreamReader") -> Any:
    """The next message. Raises OSError or one of `UNREADABLE`, at the end EOFError."""
    return unpack(await reader.readexactly(length(await reader.readexactly(4))))
