"""RTF: extracts the plain text with striprtf."""

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, choose_title, readable


def read(path: str, text: str) -> Contents:
    """The text without its formatting."""
    from striprtf.striprtf import rtf_to_text

    title, _ = choose_title(path, ())
    with contained(lambda _: UnusableFile("is not RTF that can be read")):
        shown = rtf_to_text(text, errors="ignore")  # type: ignore[no-untyped-call]
    return Contents([Loaded(readable(shown), title)])
