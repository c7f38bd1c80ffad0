"""Texts prepared for encoders."""

from collections.abc import Iterator, Sequence


def clean(text: str) -> str:
    """The text with surrogate pairs joined and lone ones, which no encoder takes, replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """The places of texts, those of like length together: little of a batch is then padding."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for first in range(0, len(order), size):
        yield order[first : first + size]
