"""Saved web pages (MHTML): a page and its resources in the format of an e-mail."""

from dataclasses import replace

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import Contents
from mcp_server_qdrant.ingest.formats.mail import (
    date_of,
    decode_part,
    header,
    parse,
    skip_to_headers,
)


def read(path: str, data: bytes) -> Contents:
    """The page, with its URL and the date when it was saved."""
    with contained(lambda _: UnusableFile("is not a saved page that can be read")):
        message = parse(skip_to_headers(data))
        root = next((one for one in message.walk() if one.get_content_type() == html.TYPE), None)
        if root is None:
            raise UnusableFile("holds no page")
        text, notes = decode_part(root)
        page = html.parse_page(text)
        named = page.title is not None and page.title.get_text().strip()
        made = html.load_page(path, page, "" if named else header(message, "Subject"))
        places = ((message, "Snapshot-Content-Location"), (root, "Content-Location"))
        url = next(filter(None, (header(part, name) for part, name in places)), None)
        metadata = {"url": url} if url else None
        return Contents([replace(made, metadata=metadata, created_at=date_of(message))], notes)
