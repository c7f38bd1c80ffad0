"""DOCX: paragraphs, lists, tables and notes of Word, by mammoth."""

import io
from dataclasses import replace
from zipfile import ZipFile

from mcp_server_qdrant.core.notation import moment
from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import Contents, described

ABOUT = "docProps/core.xml"
# The title stands above the headings.
HEADINGS = "p[style-name='Title'] => h1:fresh\n" + "\n".join(
    f"p[style-name='Heading {level}'] => h{level + 1}:fresh" for level in range(1, 6)
)


def read(path: str, data: bytes) -> Contents:
    """The text in its order as Markdown, with its headings."""
    import mammoth

    with ZipFile(io.BytesIO(data)) as archive:
        about = described(archive.read(ABOUT)) if ABOUT in archive.namelist() else {}
    made = mammoth.convert_to_html(io.BytesIO(data), style_map=HEADINGS, convert_image=lambda _: [])
    page = html.parsed(made.value)
    for link in page.select("a[href*=note-ref]"):  # from a note back to its sign
        link.decompose()
    text = html.loaded(path, page, about.get("title", ""))
    author = about.get("creator")
    when = moment(about.get("modified") or about.get("created"))
    metadata = {"author": author} if author else None
    return Contents([replace(text, metadata=metadata, created_at=when)])
