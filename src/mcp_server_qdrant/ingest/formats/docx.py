"""DOCX: paragraphs, lists and tables of Word, by python-docx (extra `files`)."""

import io
import re
from typing import TYPE_CHECKING

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats.base import (
    EXTRA,
    Contents,
    Loaded,
    Mark,
    Patience,
    described,
    readable,
    titled,
    unzipped,
)

if TYPE_CHECKING:
    from docx.table import Table
    from docx.text.paragraph import Paragraph

HEADING = re.compile(r"Heading ([1-5])$")
SECONDS = 300


def read(path: str, data: bytes) -> Contents:
    """The text in its order as Markdown, with its headings. Raises UnusableFile."""
    try:
        import docx
        from docx.table import Table
    except ImportError as error:
        raise UnusableFile(EXTRA) from error
    unzipped(data)
    text, found, in_time = "", list[Mark](), Patience(SECONDS)
    with contained(lambda _: UnusableFile("is not a DOCX that can be read")):
        document = docx.Document(io.BytesIO(data))
        given, metadata, created = described(document.core_properties)
        blocks = []
        for block in document.iter_inner_content():
            in_time.check()
            level, shown = _table(block) if isinstance(block, Table) else _paragraph(block)
            blocks.append((level, readable(shown)))
    for level, shown in blocks:
        if level:
            found.append(Mark(len(text), level, shown.lstrip("# ")))
        text += f"{shown}\n\n" if shown else ""
    title, marks = titled(path, found, given)
    loaded = Loaded(text, title, metadata=metadata, created_at=created, marks=marks)
    return Contents([loaded])


def _paragraph(block: "Paragraph") -> tuple[int, str]:
    """How deep it lies as a heading, 0 where it is none, and its text as Markdown."""
    text, style = block.text.strip(), str(getattr(block.style, "name", ""))
    if not text:
        return 0, ""
    if style == "Title":
        return 1, f"# {' '.join(text.split())}"
    if heading := HEADING.match(style):
        level = int(heading[1]) + 1  # below the title
        return level, f"{'#' * level} {' '.join(text.split())}"
    return 0, f"- {text}" if style.startswith("List") else text


def _table(block: "Table") -> tuple[int, str]:
    """A line per row; a cell over several columns counts once."""
    rows = []
    for row in block.rows:
        cells = {id(cell): " ".join(cell.text.split()) for cell in row.cells}
        rows.append(" | ".join(cells.values()))
    return 0, "\n".join(rows)
