"""DOCX: paragraphs, lists, tables and notes of Word, by mammoth."""

import io
from zipfile import ZipFile

from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import Contents, document, dublin_core

# The title stands above the headings.
HEADINGS = "p[style-name='Title'] => h1:fresh\n" + "\n".join(
    f"p[style-name='Heading {level}'] => h{level + 1}:fresh" for level in range(1, 6)
)


def read(path: str, data: bytes) -> Contents:
    """The text in its order as Markdown, with its headings."""
    import mammoth

    about = dublin_core(ZipFile(io.BytesIO(data)), "docProps/core.xml")
    made = mammoth.convert_to_html(io.BytesIO(data), style_map=HEADINGS, convert_image=lambda _: [])
    page = html.parsed(made.value)
    for link in page.select("a[href*=note-ref]"):  # from a note back to its sign
        link.decompose()
    return document(html.loaded(path, page, about.get("title", "")), about)
