"""ODT: the texts of LibreOffice, their elements taken for those of HTML."""

import io
from zipfile import ZipFile

from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import Contents, document, dublin_core

UNSEEN = ["tracked-changes", "annotation", "forms", "note-citation"]
TAGS = {
    "p": "p",
    "list": "ul",
    "list-item": "li",
    "line-break": "br",
    "table": "table",
    "table-row": "tr",
    "table-cell": "td",
}


def read(path: str, data: bytes) -> Contents:
    """The text in its order as Markdown, with its headings."""
    archive = ZipFile(io.BytesIO(data))
    page = html.parsed(archive.read("content.xml"), "xml")
    for element in page.find_all(UNSEEN):
        element.decompose()
    for element in page.find_all():
        name = element.name.rpartition(":")[2]
        if name in ("s", "tab"):
            element.string = " "
        level = min(int(str(element.get("text:outline-level", "1"))) + 1, 6)  # below the title
        title = element.get("text:style-name") == "Title"
        element.name = f"h{level}" if name == "h" else "h1" if title else TAGS.get(name, "span")
    about = dublin_core(archive, "meta.xml")
    return document(html.loaded(path, page, about.get("title", "")), about)
