"""Fakes with the public interface of the real parts."""

import asyncio
import math
import re
import zlib
from collections.abc import Sequence

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.local.model import State


class FakeEncoder(Encoder):
    """An encoder whose unit vectors count hashed words: texts that share words are similar.

    It fails on texts with one of the `unread` words. `be` sets its state. While `gate` is set to an
    asyncio.Event, encoding waits for it.
    """

    def __init__(self, model: str = "fake/Bag-of-Words", *, size: int = 64) -> None:
        self.name = model
        self._state: State = "ready"
        self.gate: asyncio.Event | None = None
        self.queries: list[str] = []
        self.documents: list[str] = []
        self.starts = 0
        self.words: set[str] = set()
        self.unread: set[str] = set()
        self._size = size

    @property
    def state(self) -> State:
        return self._state

    @property
    def reason(self) -> str | None:
        return None if self.state == "ready" else f"The model {self.name} is {self.state}."

    @property
    def vector_name(self) -> str:
        return f"fast-{self.name.split('/')[-1].lower()}"

    def be(self, state: State) -> None:
        """Set the state, with a reason like the real encoder's."""
        self._state = state

    def start(self) -> None:
        self.starts += 1

    async def ready(self, timeout: float) -> bool:
        return self.state == "ready"

    async def query_vector(self, text: str) -> tuple[float, ...]:
        await self._turn()
        self.queries.append(text)
        if self.unread & {*text.split()}:
            raise EncoderUnavailable("The model does not know these characters.")
        return self._vector(text)

    async def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        await self._turn()
        self.documents.extend(texts)
        return [[] if self.unread & {*text.split()} else list(self._vector(text)) for text in texts]

    async def size(self) -> int:
        return self._size

    async def known_size(self) -> int | None:
        return self._size

    def tokens(self) -> int | None:
        return 128 if self.state == "ready" else None

    async def common(self, words: Sequence[str]) -> list[str]:
        return [word for word in words if self.state == "ready" and word in self.words]

    async def close(self) -> None:
        self.be("idle")

    async def _turn(self) -> None:
        if self.state != "ready":
            raise EncoderUnavailable(self.reason or "")
        if self.gate is not None:
            await self.gate.wait()

    def _vector(self, text: str) -> tuple[float, ...]:
        counts = [0.0] * self._size
        for word in re.findall(r"\w+", text.lower()):
            counts[zlib.crc32(word.encode()) % self._size] += 1.0
        length = math.hypot(*counts)
        if not length:
            return (1.0, *counts[1:])
        return tuple(count / length for count in counts)
