"""PDF: the text of each page, by pypdfium2."""

from pathlib import PurePosixPath

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, Mark, readable

HYPHEN = "\ufffe"  # one that only divided a word at the end of a line


def read(path: str, data: bytes) -> Contents:
    """The pages that have text, one after the other. Raises UnusableFile."""
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    text, marks = "", list[Mark]()
    for number in range(len(document)):
        page = document[number]
        marks.append(Mark(len(text), 0, f"page {number + 1}"))
        shown = page.get_textpage().get_text_range()
        text += readable(shown.replace("\r\n", "\n").replace(HYPHEN, "")) + "\n\n"
        page.close()
    if not text.strip():
        raise UnusableFile("has no text: its pages may be pictures")
    given = document.get_metadata_value("Title")
    title = readable(given).strip() or PurePosixPath(path).stem
    return Contents([Loaded(text, title, marks=tuple(marks))])
