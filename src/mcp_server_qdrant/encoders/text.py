"""Texts made safe for encoders."""


def clean(text: str) -> str:
    """The text with surrogate pairs joined and lone ones, which no encoder takes, replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
