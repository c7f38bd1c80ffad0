"""ODT and ODP: documents of LibreOffice, with their elements renamed to those of HTML."""

import io
import re
from zipfile import ZipFile

from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import Contents, as_document, dublin_core

OBJECT = re.compile(r"Object \d+/content\.xml")
UNSEEN = ["tracked-changes", "forms", "note-citation", "ruby-text", "dc:creator", "dc:date"]
TAGS = {
    "annotation": "p",
    "chart": "div",
    "math": "p",
    "p": "p",
    "list": "ul",
    "list-item": "li",
    "line-break": "br",
    "table": "table",
    "table-row": "tr",
    "table-cell": "td",
}


def read(path: str, data: bytes) -> Contents:
    """The text as Markdown, with its headings; headers, footers and charts follow at the end."""
    archive = ZipFile(io.BytesIO(data))
    page = html.parse_page(archive.read("content.xml"), "xml")
    if "styles.xml" in archive.namelist():
        styles = html.parse_page(archive.read("styles.xml"), "xml")
        page.extend(styles.find_all(["style:header", "style:footer"]))
    for name in archive.namelist():  # charts and equations
        if OBJECT.fullmatch(name):
            part = html.parse_page(archive.read(name), "xml")
            page.extend(part.find_all(["chart:chart", "math:math", "math"]))
    for comment in page.find_all("annotation"):
        if around := comment.find_parent(["text:p", "text:h"]):
            around.insert_after(comment)
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
    return as_document(html.load_page(path, page, about.get("title", "")), about)
