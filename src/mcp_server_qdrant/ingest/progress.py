"""Encodes the parts of a long text, and tells how far it is."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

PARTS = 256  # between two reports; a text of no more makes none

Progress = Callable[[int, int], Awaitable[None]]  # parts encoded, of how many


class Encoder(Protocol):
    """What makes the dense vectors of documents."""

    async def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text. Raises EncoderUnavailable."""


async def silent(done: int, of: int) -> None:
    """Tell nobody."""


async def encoded(encoder: Encoder, texts: Sequence[str], progress: Progress) -> list[list[float]]:
    """One vector per text. Raises EncoderUnavailable."""
    vectors: list[list[float]] = []
    for first in range(0, len(texts), PARTS):
        vectors += await encoder.encode_documents(texts[first : first + PARTS])
        if len(texts) > PARTS:
            await progress(len(vectors), len(texts))
    return vectors
