"""PDF: the text of each page, by pypdf (extra `pdf`)."""

import io
import logging
from pathlib import PurePosixPath

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.core.notation import SURROGATE
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, Mark, Patience

MISSING = "needs the extra `pdf`: install qdrant-collections-mcp[pdf]"
GAP = "\n\n"
SECONDS = 600


def read(path: str, data: bytes) -> Contents:
    """The pages that have text, one after the other. Raises UnusableFile."""
    try:
        import pypdf
    except ImportError as error:
        raise UnusableFile(MISSING) from error
    # It logs a line for each thing that is odd about a file.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    pages: list[str] = []
    in_time = Patience(SECONDS)
    # A broken file makes it stumble anywhere, with any error.
    with contained(lambda _: UnusableFile("is not a PDF that can be read")):
        reader = pypdf.PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
        for sheet in () if locked else reader.pages:
            in_time.check()
            pages.append(sheet.extract_text())
        title = None if locked or reader.metadata is None else reader.metadata.title
    if locked:
        raise UnusableFile("is locked with a password")
    text, marks = "", []
    for number, page in enumerate(pages, 1):
        marks.append(Mark(len(text), 0, f"page {number}"))
        text += SURROGATE.sub("\ufffd", page) + GAP
    if not text.strip():
        raise UnusableFile("has no text: its pages may be pictures")
    name = str(title).strip() if title else ""
    name = SURROGATE.sub("\ufffd", name) or PurePosixPath(path).stem
    return Contents([Loaded(text, name, marks=tuple(marks))])
