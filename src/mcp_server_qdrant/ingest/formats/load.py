"""Bytes of a file -> the texts in it, by the format that its name tells."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.core.rows import RowTemplate
from mcp_server_qdrant.ingest.formats import (
    chats,
    code,
    csv,
    docx,
    epub,
    html,
    jsonl,
    mail,
    markdown,
    notebook,
    pdf,
    pptx,
    subtitles,
    text,
)
from mcp_server_qdrant.ingest.formats.base import Contents


@dataclass(frozen=True, slots=True)
class Format:
    """A format as docs/files.md calls it, with its reader and the suffixes of its files.

    Where a suffix is not enough, `names` are patterns of file names.
    `read(path, data)` raises UnusableFile. A file may be `large` where it holds many texts, or
    pictures beside its text. What begins with `magic` has this format under any name. With
    `rows`, `read` takes a template for them too.
    """

    name: str
    read: Callable[..., Contents]
    suffixes: str = ""
    names: str = ""
    large: bool = False
    magic: bytes | None = None
    rows: bool = False


TEXT = Format("any other text", text.read)
FORMATS = (
    Format("Markdown", markdown.read, ".md .markdown .mdown .mdx .qmd .rmd"),
    Format("HTML", html.read, ".html .htm .xhtml"),
    Format("source code", code.read, code.SUFFIXES),
    Format("JSON lines", jsonl.read, ".jsonl .ndjson", large=True),
    Format("CSV", csv.read, ".csv .tsv", rows=True),
    Format("Jupyter notebooks", notebook.read, ".ipynb"),
    Format("e-mail", mail.read, ".eml .mbox", large=True),
    Format("chat exports", chats.read, names=chats.NAMES, large=True),
    Format("DOCX", docx.read, ".docx", large=True),
    Format("PPTX", pptx.read, ".pptx", large=True),
    Format("EPUB", epub.read, ".epub", large=True),
    Format("subtitles", subtitles.read, ".srt .vtt"),
    Format("PDF", pdf.read, ".pdf", large=True, magic=b"%PDF-"),
)
_BY_SUFFIX = {suffix: one for one in FORMATS for suffix in one.suffixes.split()}
_BY_NAME = {name: one for one in FORMATS for name in one.names.split()}


def load(path: str, data: bytes, rows: RowTemplate | None = None) -> Contents:
    """The texts of a file; `path` ends with its name and begins with that of its source.

    `rows` is how those of tables are read. Raises UnusableFile saying why there is no text.
    """
    if not data:
        raise UnusableFile("is empty")
    certain = (one for one in FORMATS if one.magic and data.startswith(one.magic))
    form = next(certain, format_of(path))
    contents = form.read(path, data, rows) if form.rows else form.read(path, data)
    contents.texts = [text for text in contents.texts if text.text.strip()]
    if not contents.texts:
        raise UnusableFile(contents.notes[0] if contents.notes else "has no text")
    return contents


def format_of(path: str) -> Format:
    """The format of a file of this name."""
    place = PurePosixPath(path.lower())
    named = (one for name, one in _BY_NAME.items() if fnmatchcase(place.name, name))
    return next(named, _BY_SUFFIX.get(place.suffix, TEXT))
