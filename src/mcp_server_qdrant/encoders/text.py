"""Prepares texts for encoders."""

from collections.abc import Iterator, Sequence


def clean(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates, which no encoder accepts."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Batches of indexes of texts with similar lengths, to keep padding small."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for first in range(0, len(order), size):
        yield order[first : first + size]
